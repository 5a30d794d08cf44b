"""Authenticates and authorizes a request and dispatches it to the module that handles it."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.errors import Forbidden
from trimtab.server import api_errors
from trimtab.server.auth.authenticate import Authenticator
from trimtab.server.auth.authorize import Action, Authorizer, denial
from trimtab.server.auth.user import AUTHENTICATED, Caller, User
from trimtab.server.http.access_reviews import Reviews
from trimtab.server.http.nonresource_paths import Landing
from trimtab.server.printers.responses import form_for, list_answer, object_answer, raw_answer, watch_answer
from trimtab.server.registry.deletion import RETURNS_OBJECT
from trimtab.server.registry.object_schema import Wanted
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import Outcome, Verbs
from trimtab.server.request.body_decoding import Body, read_body
from trimtab.server.request.messages import Answer, Ask, Stream
from trimtab.server.request.negotiation import content_media, prefers_protobuf
from trimtab.server.request.options import delete_options, list_options, write_options
from trimtab.server.request.routes import Target, resolve, verb_of
from trimtab.server.resources import Served, Where
from trimtab.server.subresources.dispatch import Subresources

Beyond = Callable[[Ask, str], Awaitable[Answer | Stream]]


class Handler:
    """Handles every request of an API server, independent of HTTP."""

    def __init__(
        self,
        resource_store: Verbs,
        nonresource_paths: Landing,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        subresources: Subresources,
        reviews: Reviews,
        patcher: Patcher,
    ) -> None:
        self._verbs = resource_store
        self._landing = nonresource_paths
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._subresources = subresources
        self._reviews = reviews
        self._patcher = patcher
        self._now: Callable[[], datetime] = resource_store.clock.now
        self.beyond: dict[str, Beyond] = {}
        """Handlers of subresources that other servers provide, such as `clusters.cluster.karmada.io/proxy`."""

    async def answer(self, request: Ask) -> Answer | Stream:
        user = self._authenticator.user(request.headers.get("authorization", ""), request.certificate_user)
        agent = request.headers.get("user-agent", "").partition("/")[0] or "unknown"
        target = resolve(request.path)
        request.caller = Caller(user, agent)
        if "impersonate-user" in request.headers:
            request.caller.user = self._impersonated(request, user, target)
        if target is None or not target.resource:
            return self._landed(request, target)
        return await self._resource(request, target)

    def _impersonated(self, request: Ask, user: User, target: Target | None) -> User:
        name = request.headers["impersonate-user"]
        wanted = [Action("impersonate", "", *_subject(name))]
        wanted += [Action("impersonate", "", "groups", name=group) for group in request.groups]
        if not all(self._authorizer.allows(user, action) for action in wanted):
            raise self._impersonation_denied(request, user, target)
        groups = list(request.groups)
        if name.startswith("system:serviceaccount:") and not groups:
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
        if AUTHENTICATED not in groups and name != "system:anonymous":
            groups.append(AUTHENTICATED)
        extra = tuple(
            (key.removeprefix("impersonate-extra-"), (value,))
            for key, value in request.headers.items()
            if key.startswith("impersonate-extra-")
        )
        return User(name, tuple(groups), request.headers.get("impersonate-uid", ""), extra)

    def _impersonation_denied(self, request: Ask, user: User, target: Target | None) -> Forbidden:
        if target is None or not target.resource:
            action = Action(f"impersonate-on:user-info:{request.method.lower()}", path=request.path)
            return Forbidden(f"forbidden: {denial(user, action)}")
        verb = f"impersonate-on:user-info:{verb_of(request.method, target, request.query)}"
        return self._denied(user, _action(verb, target))

    def _denied(self, user: User, action: Action) -> Forbidden:
        return api_errors.forbidden(action.resource, action.group, action.name, denial(user, action))

    def _landed(self, request: Ask, target: Target | None) -> Answer:
        action = Action(request.method.lower(), path=request.path)
        page_action = self._landing.action(request)
        if not any(
            self._authorizer.allows(request.caller.user, candidate)
            for candidate in (action, page_action)
            if candidate is not None
        ):
            raise Forbidden(f"forbidden: {denial(request.caller.user, page_action or action)}", details=True)
        return self._landing.answer(request, target)

    async def _resource(self, request: Ask, target: Target) -> Answer | Stream:
        served = self._verbs.catalogue.find(target.group, target.version, target.resource)
        request.protobuf = (
            served is not None and not served.json_only and prefers_protobuf(request.headers.get("accept", ""))
        )
        verb = verb_of(request.method, target, request.query)
        action = _action(verb or request.method.lower(), target)
        if not self._authorizer.allows(request.caller.user, action):
            raise self._denied(request.caller.user, action)
        if served is None:
            return self._landing.missing(target)
        if target.subresource:
            return await self._sub(request, target, served, verb)
        self._check_scope(served, target, verb)
        if verb not in served.verbs:
            raise api_errors.no_such_method()
        if served.kind.id == "bindings":
            return await self._subresources.bind(request, target.namespace)
        if "list" not in served.verbs:
            return await self._reviews.answer(request, Where(served, target.namespace))
        return await self._verb(request, target, served, verb)

    def _check_scope(self, served: Served, target: Target, verb: str) -> None:
        if bool(target.name) == (verb == "create") and verb in {"create", "update", "patch"}:
            raise api_errors.no_such_method()
        if served.kind.namespaced == bool(target.namespace):
            return
        if not served.kind.namespaced or target.name:
            raise api_errors.no_such_path()
        if verb not in {"list", "watch"}:
            raise api_errors.no_such_method()

    async def _sub(self, request: Ask, target: Target, served: Served, verb: str) -> Answer | Stream:
        name = target.subresource.partition("/")[0]
        subresource = served.subresources.get(name)
        if subresource is None or served.kind.namespaced != bool(target.namespace):
            if served.kind.custom:
                raise api_errors.not_found(served.resource, served.group, target.name)
            raise api_errors.no_such_path()
        if verb not in subresource.verbs:
            raise api_errors.no_such_method()
        if external_handler := self.beyond.get(f"{served.kind.id}/{name}"):
            return await external_handler(request, target.name)
        where = Where(served, target.namespace, target.name, target.subresource)
        return await self._subresources.answer(request, where, verb)

    async def _verb(self, request: Ask, target: Target, served: Served, verb: str) -> Answer | Stream:
        resource_store, where = self._verbs, Where(served, target.namespace, target.name)
        if verb == "get":
            found = resource_store.get(where, request.query.get("resourceVersion", ""))
            return object_answer(request, found, 200, self._now())
        if verb == "list":
            return list_answer(request, resource_store.list(where, list_options(request.query)), self._now())
        if verb == "watch":
            options = list_options(request.query)
            if target.name:
                options = options._replace(fields=f"metadata.name={target.name}")
            return watch_answer(request, resource_store.store, where, options, self._now)
        if verb == "delete":
            return await self._delete(request, where)
        if verb == "deletecollection":
            return await self._delete_collection(request, where)
        if verb == "patch":
            return self._written(request, await self._patcher.patch(request, where))
        return self._written(request, await self._write(request, where, verb))

    async def _write(self, request: Ask, where: Where, verb: str) -> Outcome:
        options = write_options("CreateOptions" if verb == "create" else "UpdateOptions", request.query)
        obj = self._verbs.fitter.understand(
            where.served, self._body(request, where.served), options.validation, request.caller
        )
        if verb == "create":
            return await self._verbs.create(where, Wanted(obj), options, request.caller)
        return await self._verbs.update(where, obj, options, request.caller)

    def _body(self, request: Ask, served: Served) -> Body:
        media = content_media(request.headers.get("content-type", ""))
        return read_body(media, request.body, served.api_version, served.kind.name)

    def _written(self, request: Ask, outcome: Outcome) -> Answer:
        return object_answer(request, outcome.found, 201 if outcome.created else 200, self._now())

    def _delete_body(self, request: Ask) -> Raw | None:
        if not request.body.strip():
            return None
        return read_body(
            content_media(request.headers.get("content-type", "")), request.body, "v1", "DeleteOptions"
        ).obj

    async def _delete(self, request: Ask, where: Where) -> Answer:
        options = delete_options(self._delete_body(request), request.query)
        if self._subresources.evictions.stand_before(where, options, request.caller):
            found = self._verbs.get(where)
            await self._subresources.evictions.delete(where, options, request.caller)
            return object_answer(request, found, 200, self._now())
        outcome, status = await self._verbs.delete(where, options, request.caller)
        if outcome.deleted and where.served.storage not in RETURNS_OBJECT:
            return raw_answer(200, status, form_for(request, where.served, single=True)._replace(transform=""))
        return object_answer(request, outcome.found, 200, self._now())

    async def _delete_collection(self, request: Ask, where: Where) -> Answer:
        options = delete_options(self._delete_body(request), request.query)
        chosen = list_options(request.query)
        return list_answer(
            request,
            await self._verbs.delete_collection(where, chosen, options, request.caller),
            self._now(),
        )


def _subject(name: str) -> tuple[str, str, str, str]:
    """Resource, subresource, namespace and name of the `impersonate` action for `name`."""
    if name.startswith("system:serviceaccount:") and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        return "serviceaccounts", "", namespace, account
    return "users", "", "", name


def _action(verb: str, target: Target) -> Action:
    subresource = target.subresource.partition("/")[0]  # the rest of a proxy path is not part of the RBAC check
    return Action(verb, target.group, target.resource, subresource, target.namespace, target.name)
