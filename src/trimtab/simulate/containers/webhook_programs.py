"""The webhook servers of the test image `agnhost`: `agnhost webhook` and `agnhost crd-conversion-webhook`.

Both are fixed programs that look for certain labels, keys and names in the objects that they review. The constants
here are those of the image, so that a manifest that uses it behaves in a simulated cluster as in a real one.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.server.admission.dynamic.service_calls import ServerAnswer

_MARK = "webhook-e2e-test"
"""The label or data key by which objects ask for a refusal."""
_REFUSED, _NOT_DELETABLE, _NEVER_ANSWERED = "webhook-disallow", "webhook-nondeletable", "wait-forever"
_ADDED_LABEL = "added-label"
_FOREVER_SECONDS = 3600.0
_DELAY_SECONDS = 5.0
_EXAMPLE_GROUP = "stable.example.com"


class WebhookOptions(NamedTuple):
    sidecar_image: str = ""


class _AdmissionAnswer(NamedTuple):
    allowed: bool = True
    status: Raw | None = None
    patch: list[Raw] = []
    delay_seconds: float = 0.0


_Review = Callable[[Raw, WebhookOptions], _AdmissionAnswer]


def _answer(document: Any, delay_seconds: float = 0.0) -> ServerAnswer:
    return ServerAnswer(200, orjson.dumps(document).decode(), delay_seconds)


def review_admission(path: str, body: bytes, options: WebhookOptions) -> ServerAnswer:
    """The answer of `agnhost webhook` to an AdmissionReview."""
    if path == "/readyz":
        return ServerAnswer(200, "ok")
    review = _REVIEWS.get(path)
    if review is None:
        return ServerAnswer(404, "404 page not found\n")
    document = _read_document(body)
    if document is None:
        return ServerAnswer(400, "the body is not an AdmissionReview\n")
    request = document["request"]
    verdict = review(request, options)
    response: Raw = {"uid": request.get("uid", ""), "allowed": verdict.allowed}
    if verdict.status is not None:
        response["status"] = verdict.status
    if verdict.patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(verdict.patch)).decode()}
    head = {"apiVersion": document.get("apiVersion"), "kind": document.get("kind")}
    return _answer({**head, "response": response}, verdict.delay_seconds)


def _read_document(body: bytes) -> Raw | None:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) and isinstance(document.get("request"), dict) else None


def _object_of(request: Raw) -> Raw:
    """The reviewed object; the old one when it is deleted."""
    found = request.get("oldObject") if request.get("operation") == "DELETE" else request.get("object")
    return found if isinstance(found, dict) else {}


def _labels(obj: Raw) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _deny(message: str) -> _AdmissionAnswer:
    return _AdmissionAnswer(allowed=False, status={"message": message})


def _deny_always(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    return _deny("this webhook denies all requests")


def _allow_late(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    return _AdmissionAnswer(status={"message": "this webhook allows all requests"}, delay_seconds=_DELAY_SECONDS)


def _add_label(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    labels = _labels(_object_of(request))
    path = f"/metadata/labels/{_ADDED_LABEL}"
    if not labels:
        return _AdmissionAnswer(patch=[{"op": "add", "path": "/metadata/labels", "value": {_ADDED_LABEL: "yes"}}])
    if labels.get(_ADDED_LABEL) == "yes":
        return _AdmissionAnswer()
    return _AdmissionAnswer(
        patch=[{"op": "replace" if _ADDED_LABEL in labels else "add", "path": path, "value": "yes"}]
    )


def _review_pod(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    pod, messages = _object_of(request), []
    mark = _labels(pod).get(_MARK)
    if mark == _REFUSED:
        messages.append("the pod contains unwanted label;")
    if mark == _NEVER_ANSWERED:
        return _deny("the pod response should not be sent;")._replace(delay_seconds=_FOREVER_SECONDS)
    if any(_REFUSED in one.get("name", "") for one in (pod.get("spec") or {}).get("containers") or ()):
        messages.append("the pod contains unwanted container name;")
    return _deny(" ".join(messages)) if messages else _AdmissionAnswer()


def _review_attachment(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    name, connection = "to-be-attached-pod", _object_of(request)
    if request.get("name") != name or not connection.get("stdin") or connection.get("container") != "container1":
        return _AdmissionAnswer()
    return _deny(f"attaching to pod '{name}' is not allowed")


def _add_init_container(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    pod, name = _object_of(request), "webhook-added-init-container"
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    if (pod.get("metadata") or {}).get("name") != "webhook-to-be-mutated" or _has_container(containers, name):
        return _AdmissionAnswer()
    added = {"image": "webhook-added-image", "name": name, "resources": {}}
    return _AdmissionAnswer(patch=[{"op": "add", "path": "/spec/initContainers", "value": [added]}])


def _add_sidecar(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    name = "webhook-added-sidecar"
    if not options.sidecar_image:
        return _AdmissionAnswer(
            False, {"status": "Failure", "message": "No image specified by the sidecar-image parameter"}
        )
    if _has_container((_object_of(request).get("spec") or {}).get("containers") or (), name):
        return _AdmissionAnswer()
    added = {"image": options.sidecar_image, "name": name, "resources": {}}
    return _AdmissionAnswer(patch=[{"op": "add", "path": "/spec/containers/-", "value": added}])


def _has_container(containers: Any, name: str) -> bool:
    return any(one.get("name") == name for one in containers)


def _review_data(subject: str, what: str) -> _Review:
    """Refuses objects by the value of a key of their data."""

    def review(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
        mark, operation = (_object_of(request).get("data") or {}).get(_MARK), request.get("operation")
        if mark == _REFUSED and operation in ("CREATE", "UPDATE"):
            return _AdmissionAnswer(False, {"reason": f"the {subject} contains unwanted {what}"})
        if mark == _NOT_DELETABLE and operation == "DELETE":
            reason = f"the {subject} cannot be deleted because it contains unwanted key and value"
            return _AdmissionAnswer(False, {"reason": reason})
        return _AdmissionAnswer()

    return review


def _add_data(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    data = _object_of(request).get("data") or {}
    stages = (("mutation-start", "mutation-stage-1"), ("mutation-stage-1", "mutation-stage-2"))
    return _AdmissionAnswer(
        patch=[
            {"op": "add", "path": f"/data/{stage}", "value": "yes"}
            for cause, stage in stages
            if data.get(cause) == "yes"
        ]
    )


def _review_definition(request: Raw, options: WebhookOptions) -> _AdmissionAnswer:
    refused = _labels(_object_of(request)).get(_MARK) == _REFUSED
    return _deny("the crd contains unwanted label") if refused else _AdmissionAnswer()


_REVIEWS: Mapping[str, _Review] = {
    "/always-allow-delay-5s": _allow_late,
    "/always-deny": _deny_always,
    "/add-label": _add_label,
    "/pods": _review_pod,
    "/pods/attach": _review_attachment,
    "/mutating-pods": _add_init_container,
    "/mutating-pods-sidecar": _add_sidecar,
    "/configmaps": _review_data("configmap", "key and value"),
    "/mutating-configmaps": _add_data,
    "/custom-resource": _review_data("custom resource", "data"),
    "/mutating-custom-resource": _add_data,
    "/crd": _review_definition,
}


def review_conversion(path: str, body: bytes, options: WebhookOptions) -> ServerAnswer:
    """The answer of `agnhost crd-conversion-webhook` to a ConversionReview."""
    if path == "/readyz":
        return ServerAnswer(200, "ok")
    document = _read_document(body) if path == "/crdconvert" else None
    if document is None:
        return ServerAnswer(404 if path != "/crdconvert" else 400, "not a ConversionReview\n")
    request = document["request"]
    wanted = request.get("desiredAPIVersion")
    converted: list[Raw] = []
    result: Raw = {"status": "Success"}
    for obj in request.get("objects") or ():
        new = _convert(obj, str(wanted))
        if isinstance(new, str):
            converted, result = [], {"status": "Failure", "message": new}
            break
        converted.append(new)
    response = {"uid": request.get("uid", ""), "convertedObjects": converted, "result": result}
    return _answer({"apiVersion": document.get("apiVersion"), "kind": document.get("kind"), "response": response})


def _convert(obj: Raw, wanted: str) -> Raw | str:
    """The object in the wanted version, or why there is none: v1 has `hostPort`, v2 has `host` and `port`."""
    current, new = obj.get("apiVersion"), {**obj, "apiVersion": wanted}
    if current == wanted:
        return f"conversion from a version to itself should not call the webhook: {wanted}"
    if (current, wanted) == (f"{_EXAMPLE_GROUP}/v1", f"{_EXAMPLE_GROUP}/v2"):
        if "hostPort" in new:
            host, separator, port = str(new.pop("hostPort")).partition(":")
            if not separator or ":" in port:
                return f"invalid hostPort value `{obj['hostPort']}`"
            new |= {"host": host, "port": port}
        return new
    if (current, wanted) == (f"{_EXAMPLE_GROUP}/v2", f"{_EXAMPLE_GROUP}/v1"):
        if "host" in new or "port" in new:
            new["hostPort"] = f"{new.pop('host', '')}:{new.pop('port', '')}"
        return new
    return f'unexpected conversion version "{wanted}"'


WEBHOOK_SERVERS: Mapping[str, Callable[[str, bytes, WebhookOptions], ServerAnswer]] = {
    "webhook": review_admission,
    "crd-conversion-webhook": review_conversion,
}
