"""All exceptions of Trimtab, with their HTTP status and Kubernetes reason.

A refusal is not an exception: a filter that rejects a cluster returns a `Reason` value.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Cause(NamedTuple):
    """One field-level error in `details.causes` of a Kubernetes `Status`."""

    reason: str
    message: str
    field: str = ""


class ApiError(Exception):
    """A request failed; has all fields of a Kubernetes `Status`."""

    code: int = 500
    reason: str = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        group: str = "",
        kind: str = "",
        name: str = "",
        causes: Sequence[Cause] = (),
        retry_after: int | None = None,
        details: bool | None = None,
        uid: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.group = group
        self.kind = kind
        self.name = name
        self.uid = uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self._with_details = details

    def status(self) -> dict[str, Any]:
        """The Kubernetes `Status` object of this error."""
        details: dict[str, Any] = {}
        for key in ("name", "group", "kind", "uid"):
            if value := getattr(self, key):
                details[key] = value
        if self.causes:
            details["causes"] = [
                {"reason": c.reason, "message": c.message} | ({"field": c.field} if c.field else {})
                for c in self.causes
            ]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }
        if not (bool(details) if self._with_details is None else self._with_details):
            del status["details"]
        if not self.reason:
            del status["reason"]
        return status


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """The object was written by another client meanwhile: read it again and retry."""

    code, reason = 409, "Conflict"


class Expired(ApiError):
    """The requested revision is compacted: list again."""

    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class AddressTooLong(ApiError):
    code, reason = 414, "RequestURITooLong"


class HeadersTooLarge(ApiError):
    code, reason = 431, "RequestHeaderFieldsTooLarge"


class UnsupportedMedia(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unclassified(ApiError):
    """Kubernetes answers 500 without a reason here; a retry does not help."""

    code, reason = 500, ""


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class TimedOut(ApiError):
    code, reason = 504, "Timeout"


class StoreError(Exception):
    """The data directory cannot be used; the message says what to do."""


class StorageFailed(ApiError, StoreError):
    """The data directory refuses writes, for example because its file system is read-only; reads work."""

    code, reason = 507, "StorageFailed"


class StorageFull(StorageFailed):
    """The data directory has no room, or its disk fails; writes work again when there is room."""

    code, reason = 507, "StorageFull"


class InputError(Exception):
    """Input of the user is wrong; the message says what is wrong, where, and what to do."""


def unreadable(file: object, fault: OSError | UnicodeDecodeError) -> InputError:
    """The error of a file that cannot be read, in one sentence that names it once."""
    reason = "it is not UTF-8 text" if isinstance(fault, UnicodeDecodeError) else fault.strerror or str(fault)
    return InputError(f"cannot read {file}: {reason}")


class VirtualRunStuck(Exception):
    """A run on virtual time did not end within its limit in real time."""

    def __init__(self, timeout: float, at: float, *, is_time_stopped: bool) -> None:
        why = (
            "virtual time did not advance: a task loops without waiting, or waits for nothing"
            if is_time_stopped
            else "virtual time advanced: a task waits for something that never happens, or the limit is too short"
        )
        super().__init__(f"stopped after {timeout:g} seconds of real time; {why}")
        self.at = at
