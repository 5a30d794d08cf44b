"""Builds an API server out of its rooms: `trimtab apiserver`, `trimtab up` and simulated members all start here."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

from trimtab.api import kinds as kind_modules
from trimtab.api.kind import Kind, OtherVersion, kinds
from trimtab.api.schema import schema_for
from trimtab.api.value import Raw
from trimtab.clock import Clock, WallClock
from trimtab.errors import AlreadyExists
from trimtab.registry import discover
from trimtab.server.admission import Admission, Plugin
from trimtab.server.authenticate import Authenticator, Tokens
from trimtab.server.authorize import RBAC, Authorizer
from trimtab.server.bootstrap import first_objects
from trimtab.server.caller import Caller, User
from trimtab.server.catalogue import Catalogue, Served, Where
from trimtab.server.discovery import Discovery
from trimtab.server.edge import Edge
from trimtab.server.fitting import Fitter
from trimtab.server.handler import Handler
from trimtab.server.landing import Landing
from trimtab.server.openapi import OpenApi
from trimtab.server.options import WriteOptions
from trimtab.server.patching import Patcher
from trimtab.server.subresources import Subresources
from trimtab.server.verbs import Verbs
from trimtab.store.log import Store


class Settings(NamedTuple):
    """What may differ between servers."""

    clock: Clock = WallClock()
    static_tokens: Mapping[str, User] = {}
    token_key: bytes = b""
    plugins: Sequence[Plugin] = ()
    """Further admission, such as policy admission in `trimtab up`."""
    new_uid: Callable[[], str] = lambda: str(uuid4())


class ApiServer:
    """One API server over one store, with its background duties."""

    def __init__(self, store: Store, settings: Settings = Settings()) -> None:  # noqa: B008 - a frozen value
        discover(kind_modules)
        self.store = store
        self.catalogue = Catalogue()
        self.fitter = Fitter()
        self.admission = Admission(store.get, settings.plugins)
        self.verbs = Verbs(store, self.catalogue, settings.clock, self.admission, self.fitter, new_uid=settings.new_uid)
        self.authorizer = Authorizer(store)
        tokens = Tokens(settings.token_key or secrets.token_bytes(32), store.get)
        self.authenticator = Authenticator(tokens, settings.static_tokens, settings.clock.now)
        self.patcher = Patcher(self.verbs)
        self.handler = Handler(
            self.verbs,
            Landing(self.catalogue, Discovery(self.catalogue), OpenApi(self.catalogue), self._checks(), lambda: ""),
            self.authenticator,
            self.authorizer,
            subresources=Subresources(self.verbs, self.patcher),
            patcher=self.patcher,
        )
        self.app = Edge(self.handler)
        self._duties: list[asyncio.Task[None]] = []
        for kind in kinds.values():
            for served in served_by(kind):
                self.catalogue.add(served)

    def _checks(self) -> dict[str, Callable[[], bool]]:
        return {"ping": lambda: True, "log": lambda: True, "etcd": lambda: self.store.fault is None}

    async def start(self) -> None:
        """Write what a new server needs, then begin the background duties."""
        for obj in first_objects():
            await self._ensure(obj)
        self._begin(self._watch_roles())

    async def _ensure(self, obj: Raw) -> None:
        served = self.catalogue.of_kind(obj["apiVersion"], obj["kind"])
        if served is None or self.store.get(served.key("", obj["metadata"]["name"])) is not None:
            return
        with contextlib.suppress(AlreadyExists):
            await self.verbs.create(Where(served), obj, WriteOptions(manager="kube-apiserver"), Caller())

    def _begin(self, duty: "Awaitable[None]") -> None:
        self._duties.append(asyncio.ensure_future(duty))

    async def _watch_roles(self) -> None:
        watch = self.store.watch(RBAC)
        async for _ in watch:
            self.authorizer.forget()

    async def stop(self) -> None:
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await self.store.close()


def served_by(kind: Kind) -> list[Served]:
    """Every version in which a declared kind is served."""
    return [_in_version(kind, version) for version in (kind.version, *kind.other_versions)]


def _in_version(kind: Kind, version: str) -> Served:
    other = kind.other_versions.get(version, OtherVersion())
    return Served(
        kind,
        version,
        schema=lambda: schema_for(kind, version),
        outward=other.from_stored,
        inward=other.to_stored,
    )
