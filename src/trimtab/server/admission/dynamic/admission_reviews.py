"""AdmissionReviews: the request to a webhook, and its answer, which is checked before anything in it is used."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import orjson

from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest, Cause
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.dynamic.webhook_calls import CallFailed
from trimtab.server.storage.uids import random_uid

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")
"""The versions of AdmissionReview that are sent; a webhook lists the ones that it reads."""
_FAULTS = {kind.code: kind for kind in reversed(ApiError.__subclasses__())}
_FAULTS_BY_REASON = {kind.reason: kind for kind in ApiError.__subclasses__() if kind.reason}

_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]


class _Cause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[_Cause] | None = None
    retry_after_seconds: _Int32 | None = None


class AnswerStatus(msgspec.Struct):
    """Why a webhook refuses."""

    message: str | None = None
    reason: str | None = None
    code: _Int32 | None = None
    details: _Details | None = None


class Answer(msgspec.Struct, rename="camel"):
    """The `response` of an AdmissionReview."""

    uid: str | None = None
    allowed: bool | None = None
    status: AnswerStatus | None = None
    patch: bytes | None = None
    """A JSON patch, base64 on the wire."""
    patch_type: str | None = None
    warnings: list[str] | None = None
    audit_annotations: dict[str, str] | None = None


class _ReviewDocument(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    response: Answer | None = None


_decoder = msgspec.json.Decoder(_ReviewDocument)


def review_version(supported: Sequence[str]) -> str:
    """The version to send: the first one that the webhook lists and that is known here."""
    for version in supported:
        if version in VERSIONS:
            return version
    if supported:
        raise CallFailed(f"webhook does not accept known v1 AdmissionReview versions: {', '.join(supported)}")
    return VERSIONS[0]


def admission_review(attributes: Attributes, obj: Raw | None, old: Raw | None, version: str) -> Raw:
    where = attributes.where
    served, namespace, name, subresource = where.served, where.namespace, where.name, where.subresource
    kind = {"group": served.group, "version": served.version, "kind": served.kind.name}
    if attributes.operation == "CONNECT" and obj is not None:  # the object is the options of the connection
        kind = {"group": "", "version": "v1", "kind": obj["kind"]}
    resource = {"group": served.group, "version": served.version, "resource": served.resource}
    request: Raw = {
        "uid": random_uid(),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": attributes.operation,
        "userInfo": attributes.caller.user.user_info(),
        "object": obj,
        "oldObject": old,
        "dryRun": attributes.dry_run,
        "options": None,
    }
    for key, value in (("name", name), ("namespace", namespace), ("subResource", subresource)):
        if value:
            request[key] = value
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}


def encode_review(review: Raw) -> bytes:
    try:
        return orjson.dumps(review)
    except TypeError as error:  # such an object could not be stored either
        raise BadRequest(f"the object cannot be sent to an admission webhook: {error}") from None


def read_answer(body: bytes, review: Raw, *, mutating: bool) -> Answer:
    """The answer to `review`; raises `CallFailed` for whatever Kubernetes does not accept as one."""
    try:
        received = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid_answer(f"it is not an AdmissionReview: {error}") from None
    answer = received.response
    if answer is None:
        raise _invalid_answer("webhook response was absent")
    version = review["apiVersion"]
    if version != f"{GROUP}/v1":
        _complete_v1beta1(received, answer, review)
    if answer.uid != (uid := review["request"]["uid"]):
        raise _invalid_answer(f'expected response.uid="{uid}", got "{_shorten(answer.uid)}"')
    if (received.api_version, received.kind) != (version, "AdmissionReview"):
        found = f"{_shorten(received.api_version)}, Kind={_shorten(received.kind)}"
        raise _invalid_answer(f"expected webhook response of {version}, Kind=AdmissionReview, got {found}")
    _check_patch(answer, mutating=mutating)
    return answer


def _complete_v1beta1(received: _ReviewDocument, answer: Answer, review: Raw) -> None:
    """Webhooks of the older version may omit what identifies the answer, and the type of the only kind of patch."""
    received.api_version, received.kind, answer.uid = review["apiVersion"], "AdmissionReview", review["request"]["uid"]
    if answer.patch and answer.patch_type is None:
        answer.patch_type = "JSONPatch"


def _check_patch(answer: Answer, *, mutating: bool) -> None:
    if not mutating:
        if answer.patch:
            raise _invalid_answer("validating webhook may not return response.patch")
        if answer.patch_type is not None:
            raise _invalid_answer("validating webhook may not return response.patchType")
        return
    if answer.patch and answer.patch_type is None:
        raise _invalid_answer("webhook returned response.patch but not response.patchType")
    if not answer.patch and answer.patch_type is not None:
        raise _invalid_answer("webhook returned response.patchType but not response.patch")
    if answer.patch_type not in {None, "JSONPatch"}:
        raise CallFailed(f'unsupported patch type "{_shorten(answer.patch_type)}"')


def decode_patch(answer: Answer) -> Any:
    """The operations of the patch; ValueError when it is not JSON."""
    return orjson.loads(answer.patch) if answer.patch else []


def _invalid_answer(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")


def _shorten(text: str | None) -> str:
    return (text or "")[:100]


def denial(name: str, status: AnswerStatus | None) -> ApiError:
    """The error for the client of a webhook that refuses: what the webhook says, but never a success."""
    status = status or AnswerStatus()
    why = status.message or status.reason
    message = f'admission webhook "{name}" denied the request'
    code = status.code if status.code is not None and 400 <= status.code < 600 else 400
    kind = _FAULTS_BY_REASON.get(status.reason or "") or _FAULTS.get(code, ApiError)
    details = status.details or _Details()
    fault = kind(
        f"{message}: {why}" if why else f"{message} without explanation",
        group=details.group or "",
        kind=details.kind or "",
        name=details.name or "",
        uid=details.uid or "",
        causes=[Cause(c.reason or "", c.message or "", c.field or "") for c in details.causes or ()],
        retry_after=details.retry_after_seconds,
    )
    fault.code, fault.reason = code, status.reason or ""
    return fault
