"""AdmissionReviews as a webhook sees them: the request it reads, and the response it writes."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import orjson

from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest


class _GroupResource(msgspec.Struct):
    resource: str = ""
    group: str = ""
    version: str = ""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Request(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource: _GroupResource = msgspec.field(default_factory=_GroupResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class _AdmissionReview(msgspec.Struct, rename="camel"):
    request: _Request
    api_version: str = ""
    kind: str = ""


_decoder = msgspec.json.Decoder(_AdmissionReview)


class Review(NamedTuple):
    """One request to the API server that a webhook is asked about."""

    uid: str
    resource: str
    """Plural name and group, as `Kind.id` has them."""
    operation: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user: str = ""
    user_uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, list[str]] = {}
    object: Raw | None = None
    old: Raw | None = None
    dry_run: bool = False


class Verdict(NamedTuple):
    """What a webhook answers: allowed, perhaps with another object or warnings, or refused."""

    object: Raw | None = None
    """The object that is to be stored instead."""
    warnings: Sequence[str] = ()


ALLOWED = Verdict()


class Refused(Exception):
    """A handler refuses the request, with this fault for its client; other faults mean that it could not decide."""

    def __init__(self, fault: ApiError) -> None:
        super().__init__(fault.message)
        self.fault = fault


def parse_review(body: bytes) -> Review:
    """The request of an AdmissionReview; raises `BadRequest`."""
    try:
        review = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not an AdmissionReview: {error}") from error
    if review.api_version != "admission.k8s.io/v1" or review.kind != "AdmissionReview":
        raise BadRequest("the body must be an AdmissionReview of admission.k8s.io/v1")
    request = review.request
    target = request.resource
    return Review(
        uid=request.uid,
        resource=f"{target.resource}.{target.group}" if target.group else target.resource,
        operation=request.operation,
        namespace=request.namespace,
        name=request.name,
        subresource=request.sub_resource,
        user=request.user_info.username,
        user_uid=request.user_info.uid,
        groups=tuple(request.user_info.groups),
        extra=request.user_info.extra,
        object=request.object,
        old=request.old_object,
        dry_run=bool(request.dry_run),
    )


def allowing_response(review: Review, verdict: Verdict) -> bytes:
    response: Raw = {"uid": review.uid, "allowed": True}
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    if verdict.object is not None and review.object is not None:
        patch = list(patch_between(review.object, verdict.object))
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    return _encode(response)


def refusing_response(review: Review, fault: ApiError) -> bytes:
    """The refusal with its code, reason and causes: a kube-apiserver passes them on, and clients act on them."""
    details: Raw = {
        "causes": [{"reason": one.reason, "message": one.message, "field": one.field} for one in fault.causes]
    }
    if fault.retry_after is not None:
        details["retryAfterSeconds"] = fault.retry_after
    status = {"status": "Failure", "message": fault.message, "reason": fault.reason, "code": fault.code}
    return _encode({"uid": review.uid, "allowed": False, "status": {**status, "details": details}})


def _encode(response: Raw) -> bytes:
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def patch_between(before: Any, after: Any, path: str = "") -> Iterator[Raw]:
    """The JSON patch from one object to another; lists are replaced as a whole."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        if before != after:
            yield {"op": "replace", "path": path, "value": after}
        return
    for key in sorted(before.keys() - after.keys()):
        yield {"op": "remove", "path": f"{path}/{_escape(key)}"}
    for key, value in after.items():
        if key not in before:
            yield {"op": "add", "path": f"{path}/{_escape(key)}", "value": value}
        else:
            yield from patch_between(before[key], value, f"{path}/{_escape(key)}")


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
