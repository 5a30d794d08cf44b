"""Subresources: status, scale, eviction, binding, token, log and others."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import BadRequest, Cause, Unavailable
from trimtab.server import api_errors
from trimtab.server.auth.authenticate import ISSUER, ServiceAccountTokens, TokenClaims
from trimtab.server.printers.responses import object_response, raw_response
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import Verbs
from trimtab.server.request.body_decoding import decode_body
from trimtab.server.request.messages import Request, Response
from trimtab.server.request.negotiation import PROTOBUF, ResponseFormat, media_type_of
from trimtab.server.request.options import parse_write_options
from trimtab.server.request.routes import is_true
from trimtab.server.resources import Catalogue, Where
from trimtab.server.subresources.binding import Bindings
from trimtab.server.subresources.eviction import Evictions
from trimtab.server.subresources.scale import Scaling

_MIN_TOKEN_SECONDS, _DEFAULT_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 3600, 1 << 32
Act = Callable[[Request, Where], Awaitable[Response]]


class Output(Protocol):
    """Returns the log of a container."""

    def __call__(self, pod: Raw, container: str, /, *, previous: bool) -> str: ...


def success(ask: Request, code: int, message: str = "") -> Response:
    details = {"message": message} if message else {}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **details, "code": code}
    return raw_response(code, status, ResponseFormat(PROTOBUF) if ask.protobuf_errors else ResponseFormat())


class Subresources:
    """Dispatches to the handler of a subresource, and serves the small ones."""

    def __init__(
        self,
        verbs: Verbs,
        patcher: Patcher,
        tokens: ServiceAccountTokens,
        *,
        several_budgets: bool,
        output: Output | None = None,
    ) -> None:
        self._verbs = verbs
        self._catalogue: Catalogue = verbs.catalogue
        self._patcher = patcher
        self._tokens = tokens
        self._output = output
        self._scaling = Scaling(verbs, patcher)
        self.evictions = Evictions(verbs, several_budgets=several_budgets)
        self._bindings = Bindings(verbs, guarded=several_budgets)
        self._special: dict[str, Act] = {
            "eviction": self._evict,
            "binding": self._bind,
            "token": self._token,
            "log": self._log,
            "exec": self._connect,
            "attach": self._connect,
            "portforward": self._connect,
            "proxy": self._proxy,
        }

    async def answer(self, ask: Request, where: Where, verb: str) -> Response:
        name = where.subresource.partition("/")[0]
        if name == "scale":
            return await self._scaling.answer(ask, where, verb)
        if handler := self._special.get(name):
            return await handler(ask, where)
        return await self._whole(ask, where, verb)

    async def bind(self, ask: Request, namespace: str) -> Response:
        """The older way to bind a pod: POST of a Binding that names the pod."""
        body = self._read(ask, "v1", "Binding")
        pods = self._catalogue.preferred("", "pods")
        name = body.get("metadata", {}).get("name")
        if pods is None or not isinstance(name, str) or not name:
            raise BadRequest("the binding does not name a pod")
        return await self._bind(ask, Where(pods, namespace, name, "binding"))

    async def _whole(self, ask: Request, where: Where, verb: str) -> Response:
        """A subresource that is read and written as the whole object: status, finalize, approval."""
        now = self._verbs.clock.now()
        if verb == "get":
            return object_response(ask, self._verbs.get(where), 200, now)
        if verb == "patch":
            outcome = await self._patcher.patch(ask, where)
            return object_response(ask, outcome.found, 200, now)
        options = parse_write_options("UpdateOptions", ask.query)
        served = where.served
        body = decode_body(
            media_type_of(ask.headers.get("content-type", "")), ask.body, served.api_version, served.kind.name
        )
        obj = self._verbs.fitter.understand(served, body, options.validation, ask.caller)
        outcome = await self._verbs.update(where, obj, options, ask.caller)
        return object_response(ask, outcome.found, 200, now)

    def _read(self, ask: Request, api_version: str, kind: str) -> Raw:
        """The body of a request whose kind is not that of the resource."""
        obj = decode_body(media_type_of(ask.headers.get("content-type", "")), ask.body, api_version, kind).obj
        if obj.get("kind", kind) != kind:
            group = (api_version.rpartition("/")[0] or "core").split(".")[0]
            version = str(obj.get("apiVersion", "")).rpartition("/")[2]
            raise BadRequest(
                f'{obj["kind"]} in version "{version}" cannot be handled as a {kind}: '
                f"converting ({version}.{obj['kind']}) to ({group}.{kind}): unknown conversion"
            )
        if not isinstance(obj.get("metadata", {}), dict) or not isinstance(obj.get("spec", {}), dict):
            raise BadRequest(f"{kind} cannot be read: metadata and spec must be objects")
        return obj

    async def _evict(self, ask: Request, where: Where) -> Response:
        body = self._read(ask, "policy/v1", "Eviction")
        options = parse_write_options("CreateOptions", ask.query)
        cost = await self.evictions.evict(where, body, ask.caller, dry_run=options.dry_run)
        return success(ask, 201, cost)

    async def _bind(self, ask: Request, where: Where) -> Response:
        body = self._read(ask, "v1", "Binding")
        options = parse_write_options("CreateOptions", ask.query)
        await self._bindings.bind(where, body, options, ask.caller)
        return success(ask, 201)

    async def _token(self, ask: Request, where: Where) -> Response:
        body = self._read(ask, "authentication.k8s.io/v1", "TokenRequest")
        account = self._verbs.get(where).raw()["metadata"]
        spec = body.get("spec") or {}
        seconds = _token_seconds(spec.get("expirationSeconds"))
        now = self._verbs.clock.now()
        audiences = [str(audience) for audience in spec.get("audiences") or [ISSUER]]
        issued = int(now.timestamp())
        bound = spec.get("boundObjectRef")
        claims = TokenClaims(
            where.namespace,
            where.name,
            account["uid"],
            tuple(audiences),
            issued,
            issued + seconds,
            self._bound_object(where.namespace, bound) if isinstance(bound, dict) else None,
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
        return raw_response(201, response, ResponseFormat(PROTOBUF) if ask.protobuf_errors else ResponseFormat())

    def _bound_object(self, namespace: str, bound: Raw) -> Raw:
        kind, name = str(bound.get("kind", "")), str(bound.get("name", ""))
        resource = {"Pod": "pods", "Secret": "secrets"}.get(kind)
        if resource is None:
            raise BadRequest(f'cannot bind token for serviceaccount to kind "{kind}"')
        served = self._catalogue.preferred("", resource)
        if served is None:
            raise api_errors.not_found(resource, "", name)
        uid = self._verbs.get(Where(served, namespace, name)).raw()["metadata"]["uid"]
        return {"kind": kind, "name": name, "uid": uid}

    async def _log(self, ask: Request, where: Where) -> Response:
        pod = self._verbs.get(where).raw()
        names = [
            spec.get("name")
            for part in ("containers", "initContainers", "ephemeralContainers")
            for spec in pod.get("spec", {}).get(part) or ()
        ]
        container = ask.query.get("container", "")
        if container and container not in names:
            raise BadRequest(f"container {container} is not valid for pod {where.name}")
        if not container and len(pod["spec"].get("containers") or ()) > 1:
            listed = " ".join(str(name) for name in names)
            raise BadRequest(f"a container name must be specified for pod {where.name}, choose one of: [{listed}]")
        node = pod["spec"].get("nodeName")
        if not node:
            return Response(204, b"", "")
        if self._output is None:
            raise api_errors.not_found("pods", "", node)
        text = self._output(pod, container or str(names[0]), previous=is_true(ask.query.get("previous", "")))
        return Response(200, last_lines(text, ask.query.get("tailLines", "")).encode(), "text/plain")

    async def _connect(self, ask: Request, where: Where) -> Response:
        node = self._verbs.get(where).raw().get("spec", {}).get("nodeName")
        if not node:
            raise BadRequest(f"pod {where.name} does not have a host assigned")
        if self._output is not None:
            raise BadRequest(f"pod {where.name} is simulated: there is no process to {where.subresource} to")
        raise api_errors.not_found("pods", "", node)

    async def _proxy(self, ask: Request, where: Where) -> Response:
        self._verbs.get(where)
        raise Unavailable(f'no endpoints available for "{where.name}"')


def _token_seconds(requested: Any) -> int:
    seconds = _DEFAULT_TOKEN_SECONDS if requested is None else requested
    if isinstance(seconds, int) and _MIN_TOKEN_SECONDS <= seconds <= _MAX_TOKEN_SECONDS:
        return seconds
    why = "may not specify a duration less than 10 minutes"
    if isinstance(seconds, int) and seconds > _MAX_TOKEN_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
    message = f"Invalid value: {api_errors.quoted(seconds)}: {why}"
    cause = Cause("FieldValueInvalid", message, "spec.expirationSeconds")
    raise api_errors.invalid("TokenRequest", "authentication.k8s.io", "", [cause])


def last_lines(text: str, count: str) -> str:
    if not count:
        return text
    if not count.isdecimal():
        raise BadRequest(f"tailLines must be a non-negative number, not {api_errors.quoted(count)}")
    return "".join(text.splitlines(keepends=True)[-int(count) :]) if int(count) else ""
