"""Authenticates and authorizes a request and dispatches it to the module that handles it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial

from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Forbidden
from trimtab.server import api_errors
from trimtab.server.aggregation.aggregator import Aggregator
from trimtab.server.auth.authenticate import Authenticator
from trimtab.server.auth.authorize import Action, Authorizer, denial_message
from trimtab.server.auth.user import UNNAMED_AGENT, Caller, User
from trimtab.server.http.access_reviews import AccessReviews
from trimtab.server.http.impersonation import impersonated_user, may_impersonate, wants_impersonation
from trimtab.server.http.nonresource_paths import NonResourcePaths
from trimtab.server.printers.responses import (
    check_response_format,
    raw_response,
    response_format,
    send_list,
    send_object,
    watch_response,
)
from trimtab.server.registry.deletion import RETURNS_OBJECT
from trimtab.server.registry.object_commits import WriteOutcome
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.registry.selector_matching import required_name
from trimtab.server.request import large_objects
from trimtab.server.request.body_decoding import decode_body
from trimtab.server.request.body_worker import BodyWorker
from trimtab.server.request.messages import (
    AnyResponse,
    ForwardedResponse,
    PartedResponse,
    Request,
    Response,
    StreamingResponse,
    UpgradeResponse,
)
from trimtab.server.request.negotiation import media_type_of, prefers_protobuf
from trimtab.server.request.options import check_timeout, parse_delete_options, parse_list_options, parse_write_options
from trimtab.server.request.routes import RequestInfo, parse_path, verb_of
from trimtab.server.request.typed_bodies import check_size, read_typed
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.server.subresources.dispatch import Subresources

LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose requests may last long and take no seat; watches take one only while they start."""
OBJECTS_PER_SEAT = 100
MOST_SEATS = 10
ExternalHandler = Callable[[Request, str], Awaitable[ForwardedResponse]]

_COLLECTION_VERBS = {"list", "watch", "deletecollection"}


class RequestHandler:
    """Handles every request of an API server, independent of HTTP."""

    def __init__(
        self,
        resource_store: ResourceStore,
        nonresource_paths: NonResourcePaths,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        subresources: Subresources,
        access_reviews: AccessReviews,
        patcher: Patcher,
        aggregator: Aggregator,
        old_streamed_lists: bool = False,
    ) -> None:
        self._old_streamed_lists = old_streamed_lists
        self._resource_store = resource_store
        self._nonresource_paths = nonresource_paths
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._subresources = subresources
        self._access_reviews = access_reviews
        self._patcher = patcher
        self._aggregator = aggregator
        self._now: Callable[[], datetime] = resource_store.clock.now
        self.body_worker = BodyWorker()
        self._external_subresources: dict[str, ExternalHandler] = {}
        """Handlers of subresources that other servers provide, such as `clusters.cluster.karmada.io/proxy`."""
        self._external_resources: dict[str, ExternalHandler] = {}
        """The same for whole resources, by kind id."""

    def add_resource(self, kind_id: str, handler: ExternalHandler) -> None:
        """Let another server provide a resource, with all paths below a name; the handler gets the name."""
        self._external_resources[kind_id] = handler

    def add_subresource(self, kind_id: str, name: str, handler: ExternalHandler) -> None:
        """Let another server provide a subresource of a kind."""
        self._external_subresources[f"{kind_id}/{name}"] = handler

    async def handle(self, request: Request) -> Response | StreamingResponse:
        """Answer a request of this process, which needs no seat."""
        response = await self.handle_forwarded(request)
        if isinstance(response, UpgradeResponse):
            raise BadRequest("this request cannot become a WebSocket connection")
        return response

    async def handle_forwarded(self, request: Request) -> ForwardedResponse:
        """Answer a request that another server of this process forwarded; it needs no seat."""
        response = await self.answer(request, self.identify(request))
        return await response.join(partial(asyncio.sleep, 0)) if isinstance(response, PartedResponse) else response

    def identify(self, request: Request) -> Action:
        """Set the caller of the request, who may be impersonated; returns what it wants to do."""
        user = self._authenticator.authenticate(request.headers.get("authorization", ""), request.certificate_user)
        agent = request.headers.get("user-agent", "").partition("/")[0] or UNNAMED_AGENT
        target = request.target = parse_path(request.path)
        request.caller = Caller(user, agent)
        if wants_impersonation(request):
            request.caller.user = self._impersonated_user(request, user, target)
            request.impersonator = user
        if target is None or not target.resource:
            return Action(request.method.lower(), path=request.path)
        return _action_for(
            verb_of(request.method, target, request.query) or request.method.lower(), target, request.query
        )

    def estimate_seats(self, request: Request, action: Action) -> int:
        """The seats of a request: more for a list of many objects, none for a long-running one."""
        if action.subresource in LONG_RUNNING:
            return 0
        if action.verb not in {"list", "deletecollection"}:
            return 1
        target = request.target
        served = target and self._resource_store.catalogue.find(target.group, target.version, target.resource)
        if not served:
            return 1
        count = self._resource_store.store.count(served.collection_prefix(action.namespace))
        limit = request.query.get("limit", "")
        if limit.isdecimal() and len(limit) < 10 and int(limit):
            count = min(count, int(limit))
        return max(1, min(MOST_SEATS, count // OBJECTS_PER_SEAT))

    async def answer(self, request: Request, action: Action) -> AnyResponse:
        """Answer an identified request."""
        target = request.target
        if "timeout" in request.query and action.verb != "watch" and action.subresource not in LONG_RUNNING:
            check_timeout(request.query["timeout"])
        if target is None or not target.resource:
            return await self._handle_nonresource(request, target, action)
        return await self._handle_resource(request, target, action)

    def check_access(self, request: Request, target: RequestInfo) -> None:
        """Raise `Forbidden` unless the caller may do with this target what the request asks for."""
        verb = verb_of(request.method, target, request.query) or request.method.lower()
        action = _action_for(verb, target, request.query)
        if not self._authorizer.allows(request.caller.user, action):
            raise self._forbidden_error(request.caller.user, action)

    def _impersonated_user(self, request: Request, user: User, target: RequestInfo | None) -> User:
        if not may_impersonate(self._authorizer, user, request):
            raise self._impersonation_error(request, user, target)
        return impersonated_user(request)

    def _impersonation_error(self, request: Request, user: User, target: RequestInfo | None) -> Forbidden:
        if target is None or not target.resource:
            action = Action(f"impersonate-on:user-info:{request.method.lower()}", path=request.path)
            return Forbidden(f"forbidden: {denial_message(user, action)}")
        verb = f"impersonate-on:user-info:{verb_of(request.method, target, request.query)}"
        return self._forbidden_error(user, _action_for(verb, target, request.query))

    def _forbidden_error(self, user: User, action: Action) -> Forbidden:
        return api_errors.forbidden(action.resource, action.group, action.name, denial_message(user, action))

    async def _handle_nonresource(self, request: Request, target: RequestInfo | None, action: Action) -> AnyResponse:
        page_action = self._nonresource_paths.page_action(request)
        if not any(
            self._authorizer.allows(request.caller.user, candidate)
            for candidate in (action, page_action)
            if candidate is not None
        ):
            raise Forbidden(f"forbidden: {denial_message(request.caller.user, page_action or action)}", details=True)
        described = described_version(request.path, target)
        if described is not None and self._aggregator.serves(*described):
            return await self._aggregator.forward(request, *described)
        builds_document = self._nonresource_paths.builds_document(request)
        return await large_objects.run(builds_document, self._nonresource_paths.handle, request, target)

    async def _handle_resource(self, request: Request, target: RequestInfo, action: Action) -> AnyResponse:
        served = self._resource_store.catalogue.find(target.group, target.version, target.resource)
        request.protobuf_errors = (
            served is not None and not served.json_only and prefers_protobuf(request.headers.get("accept", ""))
        )
        verb = verb_of(request.method, target, request.query)
        if not self._authorizer.allows(request.caller.user, action):
            raise self._forbidden_error(request.caller.user, action)
        request.caller.verb = verb
        if served is None:
            if self._aggregator.serves(target.group, target.version):
                return await self._aggregator.forward(request, target.group, target.version)
            return self._nonresource_paths.not_served_response(target)
        if served.kind.id in self._external_resources and target.name:
            return await self._external_resources[served.kind.id](request, target.name)
        if served.deprecation_warning:
            request.caller.warn(served.deprecation_warning)
        if target.subresource:
            return await self._handle_subresource(request, target, served, verb)
        self._check_scope(served, target, verb)
        if verb not in served.verbs:
            raise api_errors.no_such_method()
        if request.body or verb not in {"get", "list", "watch"}:
            await self._prepare_body(request, served)
        if served.kind.id == "bindings":
            return await self._subresources.bind(request, target.namespace)
        if "list" not in served.verbs:
            return await self._access_reviews.handle(request, ObjectPath(served, target.namespace))
        return await self._handle_verb(request, target, served, verb)

    async def _prepare_body(self, request: Request, served: ServedResource) -> None:
        """Convert a body that takes long to decode, and note one that takes long to process."""
        await self.body_worker.prepare(request, served.api_version, served.kind.name)
        schema = self._resource_store.object_schema
        request.caller.sends_large_object = large_objects.is_large(request.body) or schema.validates_slowly(
            served, request.body
        )

    def _check_scope(self, served: ServedResource, target: RequestInfo, verb: str) -> None:
        if bool(target.name) == (verb == "create") and verb in {"create", "update", "patch"}:
            raise api_errors.no_such_method()
        if served.kind.namespaced == bool(target.namespace):
            return
        if not served.kind.namespaced or target.name:
            raise api_errors.no_such_path()
        if verb not in {"list", "watch"}:
            raise api_errors.no_such_method()

    async def _handle_subresource(
        self, request: Request, target: RequestInfo, served: ServedResource, verb: str
    ) -> AnyResponse:
        name = target.subresource.partition("/")[0]
        subresource = served.subresources.get(name)
        if subresource is None or served.kind.namespaced != bool(target.namespace):
            if served.kind.custom:
                raise api_errors.not_found(served.resource, served.group, target.name)
            raise api_errors.no_such_path()
        # OPTIONS has no verb, so only callers that may use every verb get here with it
        if verb not in subresource.verbs and (name, request.method) != ("proxy", "OPTIONS"):
            raise api_errors.no_such_method()
        if external_handler := self._external_subresources.get(f"{served.kind.id}/{name}"):
            return await external_handler(request, target.name)
        await self._prepare_body(request, served)
        where = ObjectPath(served, target.namespace, target.name, target.subresource)
        return await self._subresources.handle(request, where, verb)

    async def _handle_verb(
        self, request: Request, target: RequestInfo, served: ServedResource, verb: str
    ) -> AnyResponse:
        resource_store, where = self._resource_store, ObjectPath(served, target.namespace, target.name)
        if verb != "watch":
            check_response_format(request, served, single=verb not in {"list", "deletecollection"})
        if verb == "get":
            found = await resource_store.read(where, request.query.get("resourceVersion", ""))
            return await send_object(request, found, 200, self._now())
        if verb == "list":
            found_list = await resource_store.select(where, parse_list_options(request.query))
            return await send_list(request, found_list, self._now())
        if verb == "watch":
            options = parse_list_options(request.query)
            if target.name:
                options = options._replace(fields=f"metadata.name={target.name}")
            return watch_response(
                request, resource_store.store, where, options, self._now, old_streamed_lists=self._old_streamed_lists
            )
        if verb == "delete":
            return await self._delete(request, where)
        if verb == "deletecollection":
            return await self._delete_collection(request, where)
        if verb == "patch":
            return await self._write_response(request, await self._patcher.patch(request, where))
        return await self._write_response(request, await self._write(request, where, verb))

    async def _write(self, request: Request, where: ObjectPath, verb: str) -> WriteOutcome:
        options = parse_write_options("CreateOptions" if verb == "create" else "UpdateOptions", request.query)
        obj = await large_objects.run(
            request.caller.sends_large_object,
            self._resource_store.object_schema.decode_request,
            request,
            where.served,
            options.validation,
        )
        if verb == "create":
            return await self._resource_store.create(where, DesiredObject(obj), options, request.caller)
        return await self._resource_store.update(where, obj, options, request.caller)

    async def _write_response(self, request: Request, outcome: WriteOutcome) -> Response:
        return await send_object(request, outcome.stored, 201 if outcome.created else 200, self._now())

    def _delete_options_body(self, request: Request) -> Raw | None:
        if not request.body.strip():
            return None
        check_size(request, "DeleteOptions")
        media = media_type_of(request.headers.get("content-type", ""))
        options = decode_body(media, request.body, "v1", "DeleteOptions").obj
        if options.get("kind") not in (None, "", "DeleteOptions"):
            return options  # refused with its own message
        return read_typed(options, "v1", "DeleteOptions")

    async def _delete(self, request: Request, where: ObjectPath) -> Response:
        options = parse_delete_options(self._delete_options_body(request), request.query)
        if self._subresources.evictions.must_evict(where, options, request.caller):
            found = self._resource_store.get(where)
            await self._subresources.evictions.delete(where, options, request.caller)
            return await send_object(request, found, 200, self._now())
        outcome, status = await self._resource_store.delete(where, options, request.caller)
        if outcome.deleted and where.served.storage not in RETURNS_OBJECT:
            return raw_response(200, status, response_format(request, where.served, single=True)._replace(transform=""))
        return await send_object(request, outcome.stored, 200, self._now())

    async def _delete_collection(self, request: Request, where: ObjectPath) -> Response | PartedResponse:
        options = parse_delete_options(self._delete_options_body(request), request.query)
        chosen = parse_list_options(request.query)
        return await send_list(
            request,
            await self._resource_store.delete_collection(where, chosen, options, request.caller),
            self._now(),
        )


def described_version(path: str, target: RequestInfo | None) -> tuple[str, str] | None:
    """Group and version that a discovery or OpenAPI document is about; None for those about several."""
    if target is not None:
        return target.group, target.version
    parts = path.strip("/").split("/")
    return (parts[3], parts[4]) if parts[:3] == ["openapi", "v3", "apis"] and len(parts) == 5 else None


def _action_for(verb: str, target: RequestInfo, query: Mapping[str, str]) -> Action:
    subresource = target.subresource.partition("/")[0]  # the rest of a proxy path is not part of the RBAC check
    name = target.name
    if not name and verb in _COLLECTION_VERBS:
        name = required_name(query.get("fieldSelector", ""))  # for rules with resourceNames
    # a namespace is inside itself, so that its own roles apply to it
    namespace = target.name if (target.group, target.resource) == ("", "namespaces") else target.namespace
    return Action(verb, target.group, target.resource, subresource, namespace, name)
