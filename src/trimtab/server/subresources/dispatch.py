"""Subresources: status, scale, eviction, binding, token, log and others."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import BadRequest, Cause, NotFound
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes, SelectivePlugin, ValidatingPlugin
from trimtab.server.admission.dynamic.service_calls import ServiceCalls
from trimtab.server.auth.authenticate import ISSUER, ServiceAccountTokens, TokenClaims
from trimtab.server.printers.responses import check_response_format, raw_response, send_object
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request import large_objects
from trimtab.server.request.messages import ForwardedResponse, Request, Response, StreamingResponse, UpgradeResponse
from trimtab.server.request.negotiation import PROTOBUF, ResponseFormat
from trimtab.server.request.options import parse_write_options
from trimtab.server.request.routes import is_true
from trimtab.server.request.typed_bodies import decode_typed_body
from trimtab.server.resources import ObjectPath, ResourceCatalogue
from trimtab.server.subresources.attach import attach_response
from trimtab.server.subresources.binding import BindingSubresource
from trimtab.server.subresources.eviction import EvictionSubresource
from trimtab.server.subresources.exec import exec_response
from trimtab.server.subresources.pod_runtime import PodRuntime, follow_lines, no_lines, select_lines
from trimtab.server.subresources.port_forward import port_forward_response
from trimtab.server.subresources.proxy import ProxySubresource, split_port
from trimtab.server.subresources.scale import ScaleSubresource
from trimtab.server.subresources.stream_channels import log_response

_MIN_TOKEN_SECONDS, _DEFAULT_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 3600, 1 << 32
_BINDABLE_KINDS = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
"""Resources of the kinds to which a token can be bound."""
_ADMITTED = {"attach", "exec", "portforward", "proxy"}
"""Subresources that webhooks and policies may refuse with the operation CONNECT."""
_CONNECTED = {"attach", "exec", "log", "portforward", "proxy"}
"""Subresources that respond with a stream or a text, whatever the client accepts."""
SubresourceHandler = Callable[[Request, ObjectPath], Awaitable[ForwardedResponse]]


def success_status(code: int, message: str = "") -> Raw:
    details = {"message": message} if message else {}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **details, "code": code}


def success_response(request: Request, code: int, message: str = "") -> Response:
    return raw_response(
        code, success_status(code, message), ResponseFormat(PROTOBUF) if request.protobuf_errors else ResponseFormat()
    )


class Subresources:
    """Dispatches to the handler of a subresource, and serves the small ones."""

    def __init__(
        self,
        resource_store: ResourceStore,
        patcher: Patcher,
        tokens: ServiceAccountTokens,
        *,
        several_budgets: bool,
        calls: ServiceCalls,
        connection_checks: Sequence[ValidatingPlugin] = (),
        runtime: PodRuntime | None = None,
    ) -> None:
        self._resource_store = resource_store
        self._catalogue: ResourceCatalogue = resource_store.catalogue
        self._patcher = patcher
        self._tokens = tokens
        self._runtime = runtime
        self._connection_checks = connection_checks
        self._proxy = ProxySubresource(resource_store, calls, runtime)
        self._scale = ScaleSubresource(resource_store, patcher)
        self.evictions = EvictionSubresource(resource_store, several_budgets=several_budgets)
        self.bindings = BindingSubresource(resource_store, checks_generation=several_budgets)
        self._handlers: dict[str, SubresourceHandler] = {
            "eviction": self._evict,
            "binding": self._bind,
            "token": self._create_token,
            "log": self._read_log,
            "exec": self._exec,
            "attach": self._attach,
            "portforward": self._forward_ports,
            "proxy": self._proxy.handle,
        }

    async def handle(self, request: Request, where: ObjectPath, verb: str) -> ForwardedResponse:
        name = where.subresource.partition("/")[0]
        if name in _ADMITTED:
            await self._admit_connection(request, where, name)
        if name not in _CONNECTED:
            check_response_format(request, where.served, single=True)
        if name == "scale":
            return await self._scale.handle(request, where, verb)
        if handler := self._handlers.get(name):
            return await handler(request, where)
        return await self._handle_object(request, where, verb)

    async def _admit_connection(self, request: Request, where: ObjectPath, name: str) -> None:
        target = ObjectPath(where.served, where.namespace, split_port(where.name)[0], name)
        attributes = Attributes("CONNECT", target, request.caller)
        for check in self._connection_checks:
            if not isinstance(check, SelectivePlugin) or check.handles(where.served.kind, "CONNECT"):
                options = connection_options(request, where.served.subresources[name].kind, where.subresource)
                await check.validate(attributes, options, None)

    async def bind(self, request: Request, namespace: str) -> Response:
        """The older way to bind a pod: POST of a Binding that names the pod."""
        body = decode_typed_body(request, "v1", "Binding")
        pods = self._catalogue.find_preferred("", "pods")
        name = body.get("metadata", {}).get("name")
        if pods is None or not isinstance(name, str) or not name:
            raise BadRequest("the binding does not name a pod")
        return await self._bind(request, ObjectPath(pods, namespace, name, "binding"))

    async def _handle_object(self, request: Request, where: ObjectPath, verb: str) -> Response:
        """A subresource that is read and written as the whole object: status, finalize, approval."""
        now = self._resource_store.clock.now()
        if verb == "get":
            return await send_object(request, await self._resource_store.read(where), 200, now)
        if verb == "patch":
            outcome = await self._patcher.patch(request, where)
            return await send_object(request, outcome.stored, 200, now)
        options = parse_write_options("UpdateOptions", request.query)
        served = where.served
        obj = await large_objects.run(
            request.caller.sends_large_object,
            self._resource_store.object_schema.decode_request,
            request,
            served,
            options.validation,
        )
        outcome = await self._resource_store.update(where, obj, options, request.caller)
        return await send_object(request, outcome.stored, 200, now)

    async def _evict(self, request: Request, where: ObjectPath) -> Response:
        body = decode_typed_body(request, "policy/v1", "Eviction")
        options = parse_write_options("CreateOptions", request.query)
        cost = await self.evictions.evict(where, body, request.caller, dry_run=options.dry_run)
        return success_response(request, 201, cost)

    async def _bind(self, request: Request, where: ObjectPath) -> Response:
        body = decode_typed_body(request, "v1", "Binding")
        options = parse_write_options("CreateOptions", request.query)
        await self.bindings.bind(where, body, options, request.caller)
        return success_response(request, 201)

    async def _create_token(self, request: Request, where: ObjectPath) -> Response:
        body = decode_typed_body(request, "authentication.k8s.io/v1", "TokenRequest")
        account = self._resource_store.get(where).raw()["metadata"]
        spec = body.get("spec") or {}
        seconds = _token_seconds(spec.get("expirationSeconds"))
        now = self._resource_store.clock.now()
        audiences = _token_audiences(spec.get("audiences"))
        issued = int(now.timestamp())
        bound = spec.get("boundObjectRef")
        claims = TokenClaims(
            where.namespace,
            where.name,
            account["uid"],
            tuple(audiences),
            issued,
            issued + seconds,
            self._bound_object_reference(where, bound) if isinstance(bound, dict) else None,
            self._node_reference(where.namespace, bound) if isinstance(bound, dict) else None,
        )
        expires = timestamp(now + timedelta(seconds=seconds))
        metadata = {"name": where.name, "namespace": where.namespace, "creationTimestamp": timestamp(now)}
        response = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": metadata,
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": bound if isinstance(bound, dict) else None,
            },
            "status": {"token": self._tokens.issue(claims), "expirationTimestamp": expires},
        }
        return raw_response(201, response, ResponseFormat(PROTOBUF) if request.protobuf_errors else ResponseFormat())

    def _bound_object_reference(self, account: ObjectPath, bound: Raw) -> Raw:
        """Kind, name and uid of the object to which a token is bound, which must exist and belong to the account."""
        kind, name, uid = (str(bound.get(key) or "") for key in ("kind", "name", "uid"))
        resource = _BINDABLE_KINDS.get(kind)
        served = self._catalogue.find_preferred("", resource) if resource else None
        if resource is None or served is None:
            raise BadRequest(f'cannot bind token for serviceaccount to kind "{kind}"')
        namespace = account.namespace if served.kind.namespaced else ""
        found = self._resource_store.get(ObjectPath(served, namespace, name)).raw()
        if kind == "Pod" and ((found.get("spec") or {}).get("serviceAccountName") or "default") != account.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account.name}" to pod running with different serviceaccount name.'
            )
        if uid and uid != found["metadata"]["uid"]:
            message = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise api_errors.conflict(resource, "", name, message)
        return {"kind": kind, "name": name, "uid": found["metadata"]["uid"]}

    def _node_reference(self, namespace: str, bound: Raw) -> Raw | None:
        """Name and uid of the node of a bound pod; without a uid when there is no such node."""
        pods, nodes = (self._catalogue.find_preferred("", name) for name in ("pods", "nodes"))
        if bound.get("kind") != "Pod" or pods is None or nodes is None:
            return None
        pod = self._resource_store.get(ObjectPath(pods, namespace, str(bound.get("name") or ""))).raw()
        name = pod["spec"].get("nodeName")
        if not name:
            return None
        try:
            return {"name": name, "uid": self._resource_store.get(ObjectPath(nodes, "", name)).raw()["metadata"]["uid"]}
        except NotFound:
            return {"name": name}

    async def _read_log(self, request: Request, where: ObjectPath) -> ForwardedResponse:
        pod = self._resource_store.get(where).raw()
        names = [
            spec.get("name")
            for part in ("containers", "initContainers", "ephemeralContainers")
            for spec in pod.get("spec", {}).get(part) or ()
        ]
        container = request.query.get("container", "")
        if container and container not in names:
            raise BadRequest(f"container {container} is not valid for pod {where.name}")
        if not container and len(pod["spec"].get("containers") or ()) > 1:
            listed = " ".join(str(name) for name in names)
            raise BadRequest(f"a container name must be specified for pod {where.name}, choose one of: [{listed}]")
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204, b"", "")
        if self._runtime is None:
            raise api_errors.not_found("pods", "", node)
        container, previous = container or str(names[0]), is_true(request.query.get("previous", ""))
        lines = self._runtime.read_log(pod, container, previous=previous)
        text = select_lines(lines, request.query, self._resource_store.clock.now())
        follows = is_true(request.query.get("follow", "")) and not previous
        if follows or request.headers.get("upgrade", "").lower() == "websocket":
            later = self._runtime.follow_log(pod, container) if follows else no_lines()
            chunks = follow_lines(text, later, request.query)
            return (
                log_response(request, chunks)
                if "upgrade" in request.headers
                else StreamingResponse(chunks, "text/plain")
            )
        return Response(200, text.encode(), "text/plain")

    async def _exec(self, request: Request, where: ObjectPath) -> UpgradeResponse:
        return exec_response(request, *self._running_pod(where))

    async def _attach(self, request: Request, where: ObjectPath) -> UpgradeResponse:
        return attach_response(request, *self._running_pod(where))

    async def _forward_ports(self, request: Request, where: ObjectPath) -> UpgradeResponse:
        return port_forward_response(request, *self._running_pod(where))

    def _running_pod(self, where: ObjectPath) -> tuple[Raw, PodRuntime]:
        """The pod, and what runs its containers."""
        pod = self._resource_store.get(where).raw()
        node = pod.get("spec", {}).get("nodeName")
        if not node:
            raise BadRequest(f"pod {where.name} does not have a host assigned")
        if self._runtime is None:
            raise api_errors.not_found("pods", "", node)
        return pod, self._runtime


def connection_options(request: Request, kind: str, subresource: str) -> Raw:
    """What a client asks of a connection, as the object that admission sees."""
    options: Raw = {"kind": kind, "apiVersion": "v1"}
    if path := subresource.partition("/")[2]:
        options["path"] = path
    for name in ("stdin", "stdout", "stderr", "tty"):
        if name in request.query:
            options[name] = is_true(request.query[name])
    if container := request.query.get("container"):
        options["container"] = container
    if request.commands:
        options["command"] = list(request.commands)
    return options


def _token_audiences(requested: Any) -> list[str]:
    audiences = requested or [ISSUER]
    if not isinstance(audiences, list) or not all(isinstance(audience, str) and audience for audience in audiences):
        raise BadRequest("spec.audiences of a TokenRequest must be a list of names")
    return audiences


def _token_seconds(requested: Any) -> int:
    seconds = _DEFAULT_TOKEN_SECONDS if requested is None else requested
    if isinstance(seconds, int) and _MIN_TOKEN_SECONDS <= seconds <= _MAX_TOKEN_SECONDS:
        return seconds
    why = "may not specify a duration less than 10 minutes"
    if isinstance(seconds, int) and seconds > _MAX_TOKEN_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    message = f"Invalid value: {api_errors.quote_value(seconds)}: {why}"
    cause = Cause("FieldValueInvalid", message, "spec.expirationSeconds")
    raise api_errors.invalid("TokenRequest", "authentication.k8s.io", "", [cause])
