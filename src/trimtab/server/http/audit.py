"""Records requests as audit events (`audit.k8s.io/v1`), as far as the audit policy asks for it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import orjson

from trimtab.api.limits import MAX_PROTOBUF_FIELDS_IN_LOOP
from trimtab.api.value import Raw
from trimtab.clock import Clock
from trimtab.errors import ApiError
from trimtab.server.auth.user import ANONYMOUS
from trimtab.server.http.audit_log import AuditLog, AuditRotation
from trimtab.server.http.audit_policy import AuditDecision, AuditedRequest, AuditPolicy, read_policy
from trimtab.server.request.body_decoding import is_small_yaml, load_yaml
from trimtab.server.request.messages import AnyResponse, PartedResponse, Request, Response, StreamingResponse
from trimtab.server.request.negotiation import APPLY, JSON, PROTOBUF, YAML, media_type_of
from trimtab.server.request.routes import verb_of
from trimtab.telemetry import Sample

MAX_OBJECT_BYTES = 256 * 1024
"""A larger object is left out of an event; an annotation says so."""
OMITTED = "trimtab.dev/omitted"
RECEIVED, STARTED, COMPLETE = "RequestReceived", "ResponseStarted", "ResponseComplete"


class AuditSettings(NamedTuple):
    """The options of the audit log."""

    policy: Path
    log: Path
    rotation: AuditRotation = AuditRotation()


class AuditEntry(NamedTuple):
    """A request that is recorded: the fields that all of its events share."""

    decision: AuditDecision
    common: Raw
    request: Request


class Audit:
    """Records the requests of one process."""

    def __init__(self, policy: AuditPolicy, log: AuditLog, clock: Clock, new_id: Callable[[], object] = uuid4) -> None:
        self._policy = policy
        self._log = log
        self._clock = clock
        self._new_id = new_id

    @classmethod
    def open(cls, settings: AuditSettings, clock: Clock) -> "Audit":
        return cls(read_policy(settings.policy), AuditLog(settings.log, settings.rotation), clock)

    def close(self) -> None:
        self._log.close()

    def samples(self) -> Iterator[Sample]:
        yield Sample("apiserver_audit_event_total", self._log.written)
        yield Sample("apiserver_audit_error_total", self._log.lost)

    def begin(self, request: Request, client: str) -> AuditEntry | None:
        """Record that an identified request was received; None when the policy does not record it."""
        target = request.target
        verb = verb_of(request.method, target, request.query) if target is not None and target.resource else ""
        verb = verb or request.method.lower()
        user = request.impersonator or request.caller.user
        decision = self._policy.decide(AuditedRequest(user, verb, request.path, target))
        if decision.level == "None":
            return None
        common: Raw = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": decision.level,
            "auditID": str(self._new_id()),
            "requestURI": request.path + _query_text(request),
            "verb": verb,
            "user": user.user_info(),
            "sourceIPs": [client] if client else [],
            "userAgent": request.headers.get("user-agent", ""),
            "requestReceivedTimestamp": self._timestamp(),
        }
        if request.impersonator is not None:
            common["impersonatedUser"] = request.caller.user.user_info()
        if target is not None and target.resource:
            common["objectRef"] = _object_ref(request)
        entry = AuditEntry(decision, common, request)
        self._put(entry, RECEIVED, {})
        return entry

    def end(self, entry: AuditEntry, response: AnyResponse) -> None:
        """Record the answer; for a watch or a session that it has started."""
        fields: Raw = {}
        annotations: dict[str, str] = {}
        if not isinstance(response, Response | PartedResponse):
            fields["responseStatus"] = {"metadata": {}, "code": 200 if isinstance(response, StreamingResponse) else 101}
            self._put(entry, STARTED, fields)
            return
        fields["responseStatus"] = _response_status(response)
        if entry.common["verb"] == "create" and (named := self._named_by_body(entry)):
            fields["objectRef"] = named
        annotations |= entry.request.caller.annotations
        annotations["authorization.k8s.io/decision"] = "forbid" if response.code == 403 else "allow"
        if entry.decision.level in ("Request", "RequestResponse"):
            self._add_object(fields, annotations, "requestObject", entry, entry.request.body, _request_type(entry))
        if entry.decision.level == "RequestResponse" and isinstance(response, Response):
            self._add_object(fields, annotations, "responseObject", entry, response.body, response.media_type)
        self._put(entry, COMPLETE, {**fields, "annotations": annotations})

    def refuse(self, request: Request, client: str, response: AnyResponse) -> None:
        """Record a request whose caller could not be identified."""
        entry = self.begin(request, client)
        if entry is not None:
            entry.common["user"] = {"username": ANONYMOUS}
            self.end(entry, response)

    @staticmethod
    def _named_by_body(entry: AuditEntry) -> Raw | None:
        """The reference with the name of a new object, which is in its body only."""
        reference: Raw | None = entry.common.get("objectRef")
        if reference is None or "name" in reference:
            return None
        try:
            obj = _decode(entry.request.body, _request_type(entry))
        except (ValueError, ApiError):  # the answer says so
            return None
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return {**reference, "name": name} if isinstance(name, str) and name else None

    def _add_object(
        self, fields: Raw, annotations: dict[str, str], name: str, entry: AuditEntry, body: bytes, media_type: str
    ) -> None:
        if not body:
            return
        try:
            obj = _decode(body, media_type)
        except (ValueError, ApiError):  # the answer says so
            return
        if obj is None:
            annotations[OMITTED] = f"{annotations[OMITTED]},{name}" if OMITTED in annotations else name
            return
        if entry.decision.omits_managed_fields and isinstance(obj, dict):
            _drop_managed_fields(obj)
        fields[name] = obj

    def _put(self, entry: AuditEntry, stage: str, fields: Raw) -> None:
        if entry.decision.records(stage):
            event = {**entry.common, "stage": stage, **fields, "stageTimestamp": self._timestamp()}
            self._log.put(orjson.dumps(event))

    def _timestamp(self) -> str:
        return f"{self._clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"


def _decode(body: bytes, media_type: str) -> Any:
    """The object of a body; None when it is too large to be decoded here, or of another type."""
    if len(body) > MAX_OBJECT_BYTES:
        return None
    if media_type == JSON:
        return orjson.loads(body)
    if media_type == PROTOBUF:
        from trimtab.api import protobuf  # noqa: PLC0415 - loads a table

        try:
            return protobuf.decode(body, max_fields=MAX_PROTOBUF_FIELDS_IN_LOOP)
        except protobuf.TooManyFields:
            return None
    if media_type in (YAML, APPLY) and is_small_yaml(body):
        return load_yaml(body)
    return None


def _query_text(request: Request) -> str:
    return "?" + "&".join(f"{key}={value}" for key, value in request.query.items()) if request.query else ""


def _object_ref(request: Request) -> Raw:
    target = request.target
    assert target is not None
    names = {
        "resource": target.resource,
        "namespace": target.namespace,
        "name": target.name,
        "apiGroup": target.group,
        "apiVersion": target.version,
        "subresource": target.subresource,
    }
    return {key: value for key, value in names.items() if value}


def _request_type(entry: AuditEntry) -> str:
    media_type = media_type_of(entry.request.headers.get("content-type", JSON))
    return JSON if media_type.endswith("+json") else media_type


def _response_status(response: Response | PartedResponse) -> Raw:
    status: Raw = {"metadata": {}, "code": response.code}
    if response.code >= 400 and isinstance(response, Response) and response.media_type == JSON:
        body: Any = orjson.loads(response.body)
        status |= {key: body[key] for key in ("status", "message", "reason") if body.get(key)}
    return status


def _drop_managed_fields(obj: Raw) -> None:
    for one in (obj, *(obj.get("items") or ())):
        metadata = one.get("metadata") if isinstance(one, dict) else None
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
