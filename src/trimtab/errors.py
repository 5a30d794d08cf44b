"""Every fault Trimtab knows, on one screen: whose it is, its HTTP status, and whether trying again helps.

"No" is not a fault: a filter that refuses returns a `Reason` value. A fault means somebody must act.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple


class Cause(NamedTuple):
    """One field-level complaint, as Kubernetes puts it into `details.causes`."""

    reason: str
    message: str
    field: str = ""


class ApiFault(Exception):
    """A request could not be served; carries everything a Kubernetes `Status` needs."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    retriable: ClassVar[bool] = False

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
        self._details = details

    def status(self) -> dict[str, Any]:
        """The `Status` object that tells a Kubernetes client about this fault."""
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
        if not (bool(details) if self._details is None else self._details):
            del status["details"]
        if not self.reason:
            del status["reason"]
        return status


class BadRequest(ApiFault):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiFault):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiFault):
    code, reason = 403, "Forbidden"


class NotFound(ApiFault):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiFault):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiFault):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiFault):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiFault):
    """Somebody else wrote first: read again, think again."""

    code, reason, retriable = 409, "Conflict", True


class Expired(ApiFault):
    """The revision asked for is compacted away: list again."""

    code, reason, retriable = 410, "Expired", True


class TooLarge(ApiFault):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMedia(ApiFault):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiFault):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiFault):
    code, reason, retriable = 429, "TooManyRequests", True


class InternalError(ApiFault):
    code, reason, retriable = 500, "InternalError", True


class Unclassified(ApiFault):
    """Refused where Kubernetes itself answers 500 without a reason; trying again does not help."""

    code, reason = 500, ""


class Unavailable(ApiFault):
    code, reason, retriable = 503, "ServiceUnavailable", True


class TimedOut(ApiFault):
    code, reason, retriable = 504, "Timeout", True


class StoreFault(Exception):
    """The data directory cannot be used as it is; the message says what to do about it."""


class InputFault(Exception):
    """What a person handed in is wrong; the message says what, where and what to do."""


class Stuck(Exception):
    """What runs on a virtual clock does not come to its end in reasonable time."""

    def __init__(self, patience: float, at: float, *, stands_still: bool) -> None:
        why = (
            "its clock stands still: something is done over and over at one moment, or waits for nobody"
            if stands_still
            else "its clock goes on: something is waited for that never comes, or there is more to do than time for it"
        )
        super().__init__(f"no end after {patience:g} seconds on the wall clock; {why}")
        self.at = at
