"""Parses and validates query parameters and DeleteOptions, with the messages of kube-apiserver."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import NamedTuple

import orjson
from msgspec import Struct

from trimtab.api.limits import MAX_CONTINUE_TOKEN_LENGTH, MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS
from trimtab.errors import BadRequest, Cause
from trimtab.server import api_errors
from trimtab.server.request.routes import is_true

_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATION_POLICIES = ("Foreground", "Background", "Orphan")
TRUSTED = "Known"
"""The field validation of a patch encoded from our own types, which has no unknown fields."""
CURRENT_STATE = -1
"""Revision in a continue token that continues with the current state instead of a snapshot."""
Query = Mapping[str, str]


_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_MAX_INT_DIGITS = 20


class ListOptions(NamedTuple):
    labels: str = ""
    fields: str = ""
    limit: int = 0
    after: str = ""
    """The continue token; after `check_list` the key after which the page starts; empty on the first page."""
    version: int | None = None
    exact: bool = False
    snapshot: int = 0
    """The revision that all pages of one list share; 0 on the first page."""
    version_text: str = ""
    match: str = ""
    timeout: float | None = None
    bookmarks: bool = False
    initial_events: bool | None = None


class WriteOptions(Struct, frozen=True):
    field_manager: str = ""
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    include_status: bool = False
    """Write the status together with the object although the kind has a status subresource; in process only."""


_NO_WRITE_OPTIONS = WriteOptions()


class DeleteOptions(NamedTuple):
    propagation_policy: str = ""
    grace_period_seconds: int | None = None
    dry_run: bool = False
    uid: str = ""
    version: str = ""


def _parse_int(text: str) -> int:
    """A decimal number of 64 bits, as Go parses it."""
    if not _INTEGER.match(text):
        raise BadRequest(f"strconv.ParseInt: parsing {api_errors.quote_value(text[:100])}: invalid syntax")
    if len(text) > _MAX_INT_DIGITS or not -(1 << 63) <= int(text) < 1 << 63:
        raise BadRequest(f"strconv.ParseInt: parsing {api_errors.quote_value(text[:100])}: value out of range")
    return int(text)


def _selector(query: Query, name: str) -> str:
    text = query.get(name, "")
    if len(text) > MAX_SELECTOR_LENGTH or text.count(",") >= MAX_SELECTOR_TERMS:
        raise BadRequest(
            f"{name} is too long: at most {MAX_SELECTOR_LENGTH} characters and {MAX_SELECTOR_TERMS} "
            "requirements and values are allowed"
        )
    return text


def parse_version(text: str) -> int | None:
    """A resourceVersion as a number; None when it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


_GO_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)\Z")


def check_timeout(text: str) -> None:
    """Refuse a `timeout` that is not a duration in the notation of Go."""
    if text and not _GO_DURATION.match(text):
        raise BadRequest(f'invalid timeout specified in the request URL - time: invalid duration "{text[:100]}"')


def parse_list_options(query: Query) -> ListOptions:
    """Options of a list or watch; `check_list` and `check_watch` validate their combination."""
    text, match, token = (query.get(key, "") for key in ("resourceVersion", "resourceVersionMatch", "continue"))
    limit = _parse_int(query["limit"]) if query.get("limit") else 0
    timeout = float(_parse_int(query["timeoutSeconds"])) if query.get("timeoutSeconds") else None
    initial = is_true(query["sendInitialEvents"]) if query.get("sendInitialEvents") else None
    return ListOptions(
        _selector(query, "labelSelector"),
        _selector(query, "fieldSelector"),
        max(limit, 0),
        token,
        parse_version(text) if text else None,
        match == "Exact",
        0,
        text,
        match,
        timeout,
        is_true(query.get("allowWatchBookmarks", "")),
        initial,
    )


def validate_list_options(options: ListOptions) -> ListOptions:
    """Validate the options of a list and decode its continue token."""
    text, match = options.version_text, options.match
    if match:
        causes = _version_match_causes(text, match, options)
        if causes:
            raise api_errors.invalid_options("ListOptions", *causes)
    if options.initial_events is not None:
        raise api_errors.invalid_options(
            "ListOptions",
            Cause("FieldValueForbidden", "Forbidden: sendInitialEvents is forbidden for list", "sendInitialEvents"),
        )
    if text and options.version is None:
        raise BadRequest(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    if options.after:
        if text and text != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")
        snapshot, after = _decode_continue_token(options.after)
        return options._replace(after=after, snapshot=max(snapshot, 0), version=None)
    return options


def _version_match_causes(text: str, match: str, options: ListOptions) -> list[Cause]:
    field = "resourceVersionMatch"
    if not text:
        return [
            Cause("FieldValueForbidden", f"Forbidden: {field} is forbidden unless resourceVersion is provided", field)
        ]
    if options.after:
        return [Cause("FieldValueForbidden", f"Forbidden: {field} is forbidden when continue is provided", field)]
    if match not in {"Exact", "NotOlderThan"}:
        message = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        return [Cause("FieldValueNotSupported", message, field)]
    if match == "Exact" and text == "0":
        message = f'Forbidden: {field} "Exact" is forbidden for resourceVersion "0"'
        return [Cause("FieldValueForbidden", message, field)]
    return []


def validate_watch_options(options: ListOptions) -> ListOptions:
    """Validate the options of a watch."""
    field = "resourceVersionMatch"
    if options.initial_events is None:
        if options.match:
            message = f"Forbidden: {field} is forbidden for watch unless sendInitialEvents is provided"
            raise api_errors.invalid_options("ListOptions", Cause("FieldValueForbidden", message, field))
    elif options.match != "NotOlderThan":
        if options.match:
            message = f'Unsupported value: "{options.match}": supported values: "NotOlderThan"'
            raise api_errors.invalid_options("ListOptions", Cause("FieldValueNotSupported", message, field))
        message = f"Forbidden: sendInitialEvents requires setting {field} to NotOlderThan"
        raise api_errors.invalid_options("ListOptions", Cause("FieldValueForbidden", message, field))
    if options.version_text and options.version is None:
        raise api_errors.unclassified_error(
            f'strconv.ParseUint: parsing "{options.version_text}": invalid syntax'
            if options.initial_events is None
            else f'resourceVersion: Invalid value: "{options.version_text}": invalid syntax'
        )
    return options


def encode_continue_token(revision: int, last: str) -> str:
    """An opaque continue token: resume after `last` at `revision`."""
    body = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": f"/{last}\0"})
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _decode_continue_token(token: str) -> tuple[int, str]:
    try:
        token = token if len(token) <= MAX_CONTINUE_TOKEN_LENGTH else ""
        body = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        revision, start = body["rv"], body["start"]
        if body["v"] == "meta.k8s.io/v1" and _is_revision(revision) and isinstance(start, str):
            return revision, start.lstrip("/").rstrip("\0")
    except (ValueError, binascii.Error, KeyError, TypeError):
        pass
    raise BadRequest("continue key is not valid: illegal base64 data or an unknown token")


def _is_revision(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 63


def parse_write_options(kind: str, query: Query, *, apply: bool = False) -> WriteOptions:
    """Options of create (`CreateOptions`), update and patch."""
    if not query and not apply:
        return _NO_WRITE_OPTIONS
    causes = []
    dry = query.get("dryRun", "")
    if "dryRun" in query and dry != "All":
        causes.append(_unsupported_value_cause("dryRun", f'["{dry}"]', ("All",)))
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > 128:
        causes.append(Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"))
    elif not manager.isprintable():
        message = f"Invalid value: {api_errors.quote_value(manager)}: should only contain printable characters"
        causes.append(Cause("FieldValueInvalid", message, "fieldManager"))
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        causes.append(_unsupported_value_cause("fieldValidation", f'"{validation}"', _VALIDATIONS))
    force = is_true(query.get("force", ""))
    if kind == "PatchOptions":
        if apply and not manager:
            causes.append(Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
        if not apply and "force" in query:
            causes.append(Cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"))
    if causes:
        raise api_errors.invalid_options(kind, *causes)
    return WriteOptions(manager, bool(dry), validation or "Warn", force)


def _unsupported_value_cause(field: str, value: str, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{item}"' for item in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {value}: supported values: {listed}", field)


def parse_delete_options(body: Mapping[str, object] | None, query: Query) -> DeleteOptions:
    """Options of a deletion, from the body or, without one, from the query."""
    options: dict[str, object] = dict(body) if body else _delete_options_from_query(query)
    if body and body.get("kind") not in (None, "", "DeleteOptions"):
        raise BadRequest(
            f'no kind "{body["kind"]}" is registered for version "{body.get("apiVersion", "")}" '
            'in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    orphan, policy = options.get("orphanDependents"), options.get("propagationPolicy")
    causes = []
    if orphan is not None and policy is not None:
        message = "Invalid value: orphanDependents and deletionPropagation cannot be both set"
        causes.append(
            Cause(
                "FieldValueInvalid",
                message.replace("Invalid value: ", f"Invalid value: {api_errors.quote_value(policy)}: ", 1),
                "propagationPolicy",
            )
        )
    if policy is not None and policy not in _PROPAGATION_POLICIES:
        causes.append(
            _unsupported_value_cause(
                "propagationPolicy", api_errors.quote_value(policy), (*_PROPAGATION_POLICIES, "nil")
            )
        )
    dry = options.get("dryRun") or []
    if not isinstance(dry, list) or any(value != "All" for value in dry):
        causes.append(_unsupported_value_cause("dryRun", api_errors.quote_value(dry), ("All",)))
    if causes:
        raise api_errors.invalid_options("DeleteOptions", *causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = options.get("preconditions")
    uid, version = (
        (str(preconditions.get(key) or "") for key in ("uid", "resourceVersion"))
        if isinstance(preconditions, dict)
        else ("", "")
    )
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise BadRequest("json: cannot unmarshal into Go struct field DeleteOptions.gracePeriodSeconds of type int64")
    return DeleteOptions(str(policy or ""), grace, bool(dry), uid, version)


def _delete_options_from_query(query: Query) -> dict[str, object]:
    options: dict[str, object] = {}
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    if query.get("gracePeriodSeconds"):
        options["gracePeriodSeconds"] = _parse_int(query["gracePeriodSeconds"])
    if query.get("orphanDependents"):
        options["orphanDependents"] = is_true(query["orphanDependents"])
    if "dryRun" in query:
        options["dryRun"] = [query["dryRun"]]
    return options
