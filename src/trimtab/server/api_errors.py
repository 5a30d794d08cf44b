"""The API errors that several modules share, in the words of Kubernetes."""

import json
from collections.abc import Sequence
from typing import Any

from trimtab.api.field_errors import join_causes
from trimtab.api.limits import MAX_CAUSES
from trimtab.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TimedOut,
    Unclassified,
)

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def qualified_resource(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, group: str, name: str) -> NotFound:
    return NotFound(f'{qualified_resource(resource, group)} "{name}" not found', kind=resource, group=group, name=name)


def already_exists(resource: str, group: str, name: str) -> AlreadyExists:
    return AlreadyExists(
        f'{qualified_resource(resource, group)} "{name}" already exists', kind=resource, group=group, name=name
    )


def conflict(resource: str, group: str, name: str, reason: str = MODIFIED) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on {qualified_resource(resource, group)} "{name}": {reason}',
        kind=resource,
        group=group,
        name=name,
    )


def forbidden(resource: str, group: str, name: str, reason: str, causes: Sequence[Cause] = ()) -> Forbidden:
    subject = f'{qualified_resource(resource, group)} "{name}"' if name else qualified_resource(resource, group)
    return Forbidden(f"{subject} is forbidden: {reason}", kind=resource, group=group, name=name, causes=causes)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Invalid:
    message = join_causes(causes[:MAX_CAUSES])
    if len(causes) > MAX_CAUSES:
        message = f"{message} and {len(causes) - MAX_CAUSES} more"
    return Invalid(
        f'{qualified_resource(kind, group)} "{name}" is invalid: {message}',
        kind=kind,
        group=group,
        name=name,
        causes=causes[:MAX_CAUSES],
    )


def invalid_options(kind: str, *causes: Cause) -> Invalid:
    """Invalid query parameters: `CreateOptions.meta.k8s.io "" is invalid: ...`."""
    return invalid(kind, "meta.k8s.io", "", causes)


def no_such_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details=True)


def no_such_method() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details=True)


def bad_request(message: str) -> BadRequest:
    return BadRequest(message)


def unclassified_error(message: str) -> Unclassified:
    """A 500 without a reason, as Kubernetes returns it when a library error escapes."""
    return Unclassified(message)


def internal_error(message: str) -> InternalError:
    """A 500 as Kubernetes wraps it: the message is repeated as a cause."""
    return InternalError(f"Internal error occurred: {message}", causes=[Cause("", message)])


def version_too_large(requested: int, current: int) -> TimedOut:
    return TimedOut(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )


def status_of(fault: ApiError) -> dict[str, Any]:
    """The Status of a fault; causes of a wrapped internal error have no reason."""
    status = fault.status()
    for cause in status.get("details", {}).get("causes", ()):
        if not cause.get("reason"):
            cause.pop("reason", None)
    return status


def quote_value(value: Any) -> str:
    """A value as it appears in an error message: strings in quotes, everything else as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
