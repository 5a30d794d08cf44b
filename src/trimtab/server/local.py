"""A Client without HTTP: the same verbs, called in process, so that one process can hold a fleet."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.client.client import Answer, Change, Listing, PatchType, Propagation, Resource
from trimtab.errors import Expired, Unavailable
from trimtab.server import refuse
from trimtab.server.answer import Answer as ServerAnswer
from trimtab.server.answer import Ask
from trimtab.server.assembly import ApiServer
from trimtab.server.caller import SYSTEM, Caller, User
from trimtab.server.catalogue import Served, Where, version_rank
from trimtab.server.decode import Body
from trimtab.server.fitting import Wanted
from trimtab.server.options import DeleteOptions, ListOptions, WriteOptions
from trimtab.server.patching import JSON_PATCH, MERGE, STRATEGIC
from trimtab.server.selecting import EVERYTHING, Choice, choose
from trimtab.server.wire import unpack
from trimtab.store.entry import Event

_MEDIA = {"merge": MERGE, "json": JSON_PATCH, "strategic": STRATEGIC}


def _own_copy(obj: Any) -> Any:
    """What callers hand over stays theirs; the verbs fill in what is missing in place."""
    return orjson.loads(orjson.dumps(obj))


class LocalClient:
    """One embedded API server, as one user, without a socket in between."""

    def __init__(self, server: ApiServer, user: User = SYSTEM) -> None:
        self._server = server
        self._user = user
        self.requests = 0

    def _served(self, resource: Resource) -> Served:
        self.requests += 1
        served = self._server.catalogue.find(resource.group, resource.version, resource.plural)
        if served is None:
            raise refuse.no_such_path()
        return served

    def _caller(self, manager: str = "trimtab") -> Caller:
        return Caller(self._user, manager)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return self._server.verbs.get(Where(self._served(resource), namespace, name)).raw()

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        served = self._served(resource)
        batch = self._server.verbs.list(Where(served, namespace), ListOptions(labels=labels, fields=fields))
        items = [unpack(served, entry.value, entry.mod_revision) for entry in batch.entries]
        return Listing(items, str(batch.revision))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Change]]:
        served = self._served(resource)
        choice = choose(served, labels, fields)
        watch = self._server.store.watch(served.under(namespace), int(revision))
        try:
            async for events in watch:
                if changes := [change for event in events if (change := _change(event, served, choice)) is not None]:
                    yield changes
        except Unavailable:
            return
        except Expired as fault:
            raise Expired(f"too old resource version: {fault}") from fault

    async def create(self, resource: Resource, obj: Raw, *, manager: str = "trimtab", dry_run: bool = False) -> Raw:
        served, caller = self._served(resource), self._caller(manager)
        read = self._server.fitter.understand(served, Body(_own_copy(obj), []), "Warn", caller)
        where = Where(served, obj["metadata"].get("namespace", "") if served.kind.namespaced else "")
        outcome = await self._server.verbs.create(where, Wanted(read), WriteOptions(manager, dry_run), caller)
        return outcome.found.raw()

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        served, caller = self._served(resource), self._caller(manager)
        read = self._server.fitter.understand(served, Body(_own_copy(obj), []), "Warn", caller)
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "") if served.kind.namespaced else ""
        where = Where(served, namespace, metadata["name"], subresource)
        outcome = await self._server.verbs.update(where, read, WriteOptions(manager), caller)
        return outcome.found.raw()

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - it is what kubectl calls it
        subresource: str = "",
        manager: str = "trimtab",
        force: bool = False,
    ) -> Raw:
        served, caller = self._served(resource), self._caller(manager)
        where = Where(served, namespace if served.kind.namespaced else "", name, subresource)
        options = WriteOptions(manager, force=force)
        patcher = self._server.patcher
        if type == "apply":
            outcome = await patcher.apply(where, _own_copy(patch), options, caller)
        else:
            apply = patcher.applier(_MEDIA[type], _own_copy(patch), served)
            outcome = await patcher.change(where, apply, options, caller)
        return outcome.found.raw()

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        revision: str = "",
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        served = self._served(resource)
        where = Where(served, namespace if served.kind.namespaced else "", name)
        options = DeleteOptions(propagation, grace_seconds, uid=uid, version=revision)
        await self._server.verbs.delete(where, options, self._caller())

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        served = self._served(resource)
        where = Where(served, namespace if served.kind.namespaced else "", name, subresource)
        ask = Ask("POST", resource.path(namespace, name, subresource), {}, {}, body=orjson.dumps(obj))
        ask.caller = self._caller()
        answer = await self._server.subresources.answer(ask, where, "create")
        found: Raw = orjson.loads(answer.body)
        return found

    async def resources(self) -> Sequence[Resource]:
        best: dict[tuple[str, str], Served] = {}
        for served in self._server.catalogue:
            known = best.get((served.group, served.resource))
            if known is None or version_rank(served.version) < version_rank(known.version):
                best[served.group, served.resource] = served
        return [
            Resource(s.group, s.version, s.resource, s.kind.name, s.kind.namespaced, tuple(s.verbs))
            for s in best.values()
        ]

    async def fetch(self, path: str) -> Answer:
        self.requests += 1
        ask = Ask("GET", path, {}, {})
        ask.caller = self._caller()
        answer: ServerAnswer = self._server.landing.answer(ask, None)
        return Answer(answer.code, answer.body)

    async def close(self) -> None:
        """Nothing is held open; the server belongs to whoever started it."""


def _change(event: Event, served: Served, choice: Choice) -> Change | None:
    """The event as this watcher sees it; decoded once for all who watch the same version in process."""
    now = event.value if event.value is not None and choice.takes(event.value) else None
    before = event.prev_value if event.prev_value is not None and choice.takes(event.prev_value) else None
    if now is None and before is None:
        return None
    if now is None:
        return Change("DELETED", _decoded(event, served, before or b""))
    known = before is not None or (choice is EVERYTHING and event.type == "MODIFIED")
    return Change("MODIFIED" if known else "ADDED", _decoded(event, served, now))


def _decoded(event: Event, served: Served, value: bytes) -> Raw:
    if event.memo is None:
        event.memo = {}
    key = f"decoded {served.api_version}"
    raw: Raw | None = event.memo.get(key)
    if raw is None:
        raw = event.memo[key] = unpack(served, value, event.revision)
    return raw
