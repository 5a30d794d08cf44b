"""From a request to its answer: who asks, may they, and which room serves it."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.errors import Forbidden
from trimtab.server.auth.access_reviews import Reviews
from trimtab.server.auth.authenticate import Authenticator
from trimtab.server.auth.authorize import Action, Authorizer, denial
from trimtab.server.auth.user import AUTHENTICATED, Caller, User
from trimtab.server.http.body_decoding import Body, read_body
from trimtab.server.http.messages import Answer, Ask, Stream
from trimtab.server.http.negotiation import content_media, prefers_protobuf
from trimtab.server.http.nonresource_paths import Landing
from trimtab.server.http.options import delete_options, list_options, write_options
from trimtab.server.http.routes import Target, resolve, verb_of
from trimtab.server.printers.responses import form_for, list_answer, object_answer, raw_answer, watch_answer
from trimtab.server.registry import api_errors
from trimtab.server.registry.deletion import RETURNS_OBJECT
from trimtab.server.registry.object_schema import Wanted
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import Outcome, Verbs
from trimtab.server.registry.resources import Served, Where
from trimtab.server.subresources.dispatch import Subresources

Beyond = Callable[[Ask, str], Awaitable[Answer | Stream]]


class Handler:
    """Everything an API server answers, without the socket."""

    def __init__(
        self,
        verbs: Verbs,
        landing: Landing,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        subresources: Subresources,
        reviews: Reviews,
        patcher: Patcher,
    ) -> None:
        self._verbs = verbs
        self._landing = landing
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._subresources = subresources
        self._reviews = reviews
        self._patcher = patcher
        self._now: Callable[[], datetime] = verbs.clock.now
        self.beyond: dict[str, Beyond] = {}
        """Who answers subresources that lead out of this server, such as `clusters.cluster.karmada.io/proxy`."""

    async def answer(self, ask: Ask) -> Answer | Stream:
        user = self._authenticator.user(ask.headers.get("authorization", ""), ask.certificate_user)
        agent = ask.headers.get("user-agent", "").partition("/")[0] or "unknown"
        target = resolve(ask.path)
        ask.caller = Caller(user, agent)
        if "impersonate-user" in ask.headers:
            ask.caller.user = self._impersonated(ask, user, target)
        if target is None or not target.resource:
            return self._landed(ask, target)
        return await self._resource(ask, target)

    # who

    def _impersonated(self, ask: Ask, user: User, target: Target | None) -> User:
        name = ask.headers["impersonate-user"]
        wanted = [Action("impersonate", "", *_subject(name))]
        wanted += [Action("impersonate", "", "groups", name=group) for group in ask.groups]
        if not all(self._authorizer.allows(user, action) for action in wanted):
            raise self._impersonation_denied(ask, user, target)
        groups = list(ask.groups)
        if name.startswith("system:serviceaccount:") and not groups:
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
        if AUTHENTICATED not in groups and name != "system:anonymous":
            groups.append(AUTHENTICATED)
        extra = tuple(
            (key.removeprefix("impersonate-extra-"), (value,))
            for key, value in ask.headers.items()
            if key.startswith("impersonate-extra-")
        )
        return User(name, tuple(groups), ask.headers.get("impersonate-uid", ""), extra)

    def _impersonation_denied(self, ask: Ask, user: User, target: Target | None) -> Forbidden:
        if target is None or not target.resource:
            action = Action(f"impersonate-on:user-info:{ask.method.lower()}", path=ask.path)
            return Forbidden(f"forbidden: {denial(user, action)}")
        verb = f"impersonate-on:user-info:{verb_of(ask.method, target, ask.query)}"
        return self._denied(user, _action(verb, target))

    def _denied(self, user: User, action: Action) -> Forbidden:
        return api_errors.forbidden(action.resource, action.group, action.name, denial(user, action))

    # what

    def _landed(self, ask: Ask, target: Target | None) -> Answer:
        action = Action(ask.method.lower(), path=ask.path)
        amounts_to = self._landing.action(ask)
        if not any(self._authorizer.allows(ask.caller.user, one) for one in (action, amounts_to) if one is not None):
            raise Forbidden(f"forbidden: {denial(ask.caller.user, amounts_to or action)}", details=True)
        return self._landing.answer(ask, target)

    async def _resource(self, ask: Ask, target: Target) -> Answer | Stream:
        served = self._verbs.catalogue.find(target.group, target.version, target.resource)
        ask.protobuf = served is not None and not served.json_only and prefers_protobuf(ask.headers.get("accept", ""))
        verb = verb_of(ask.method, target, ask.query)
        action = _action(verb or ask.method.lower(), target)
        if not self._authorizer.allows(ask.caller.user, action):
            raise self._denied(ask.caller.user, action)
        if served is None:
            return self._landing.missing(target)
        if target.subresource:
            return await self._sub(ask, target, served, verb)
        self._check_scope(served, target, verb)
        if verb not in served.verbs:
            raise api_errors.no_such_method()
        if served.kind.id == "bindings":
            return await self._subresources.bind(ask, target.namespace)
        if "list" not in served.verbs:
            return await self._reviews.answer(ask, Where(served, target.namespace))
        return await self._verb(ask, target, served, verb)

    def _check_scope(self, served: Served, target: Target, verb: str) -> None:
        if bool(target.name) == (verb == "create") and verb in {"create", "update", "patch"}:
            raise api_errors.no_such_method()
        if served.kind.namespaced == bool(target.namespace):
            return
        if not served.kind.namespaced or target.name:
            raise api_errors.no_such_path()
        if verb not in {"list", "watch"}:
            raise api_errors.no_such_method()

    async def _sub(self, ask: Ask, target: Target, served: Served, verb: str) -> Answer | Stream:
        name = target.subresource.partition("/")[0]
        known = served.subresources.get(name)
        if known is None or served.kind.namespaced != bool(target.namespace):
            if served.kind.custom:
                raise api_errors.not_found(served.resource, served.group, target.name)
            raise api_errors.no_such_path()
        if verb not in known.verbs:
            raise api_errors.no_such_method()
        if beyond := self.beyond.get(f"{served.kind.id}/{name}"):
            return await beyond(ask, target.name)
        where = Where(served, target.namespace, target.name, target.subresource)
        return await self._subresources.answer(ask, where, verb)

    async def _verb(self, ask: Ask, target: Target, served: Served, verb: str) -> Answer | Stream:
        verbs, where = self._verbs, Where(served, target.namespace, target.name)
        if verb == "get":
            found = verbs.get(where, ask.query.get("resourceVersion", ""))
            return object_answer(ask, found, 200, self._now())
        if verb == "list":
            return list_answer(ask, verbs.list(where, list_options(ask.query)), self._now())
        if verb == "watch":
            options = list_options(ask.query)
            if target.name:
                options = options._replace(fields=f"metadata.name={target.name}")
            return watch_answer(ask, verbs.store, where, options, self._now)
        if verb == "delete":
            return await self._delete(ask, where)
        if verb == "deletecollection":
            return await self._delete_collection(ask, where)
        if verb == "patch":
            return self._written(ask, await self._patcher.patch(ask, where))
        return self._written(ask, await self._write(ask, where, verb))

    async def _write(self, ask: Ask, where: Where, verb: str) -> Outcome:
        options = write_options("CreateOptions" if verb == "create" else "UpdateOptions", ask.query)
        obj = self._verbs.fitter.understand(where.served, self._body(ask, where.served), options.validation, ask.caller)
        if verb == "create":
            return await self._verbs.create(where, Wanted(obj), options, ask.caller)
        return await self._verbs.update(where, obj, options, ask.caller)

    def _body(self, ask: Ask, served: Served) -> Body:
        media = content_media(ask.headers.get("content-type", ""))
        return read_body(media, ask.body, served.api_version, served.kind.name)

    def _written(self, ask: Ask, outcome: Outcome) -> Answer:
        return object_answer(ask, outcome.found, 201 if outcome.created else 200, self._now())

    def _delete_body(self, ask: Ask) -> Raw | None:
        if not ask.body.strip():
            return None
        return read_body(content_media(ask.headers.get("content-type", "")), ask.body, "v1", "DeleteOptions").obj

    async def _delete(self, ask: Ask, where: Where) -> Answer:
        options = delete_options(self._delete_body(ask), ask.query)
        if self._subresources.evictions.stand_before(where, options, ask.caller):
            found = self._verbs.get(where)
            await self._subresources.evictions.delete(where, options, ask.caller)
            return object_answer(ask, found, 200, self._now())
        outcome, status = await self._verbs.delete(where, options, ask.caller)
        if outcome.deleted and where.served.storage not in RETURNS_OBJECT:
            return raw_answer(200, status, form_for(ask, where.served, single=True)._replace(transform=""))
        return object_answer(ask, outcome.found, 200, self._now())

    async def _delete_collection(self, ask: Ask, where: Where) -> Answer:
        options = delete_options(self._delete_body(ask), ask.query)
        chosen = list_options(ask.query)
        return list_answer(
            ask,
            await self._verbs.delete_collection(where, chosen, options, ask.caller),
            self._now(),
        )


def _subject(name: str) -> tuple[str, str, str, str]:
    """resource, subresource, namespace and name that impersonating `name` is about."""
    if name.startswith("system:serviceaccount:") and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        return "serviceaccounts", "", namespace, account
    return "users", "", "", name


def _action(verb: str, target: Target) -> Action:
    subresource = target.subresource.partition("/")[0]  # what comes after it is not for us to judge
    return Action(verb, target.group, target.resource, subresource, target.namespace, target.name)
