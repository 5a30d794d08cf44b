"""Builds an API server out of its rooms: `trimtab apiserver`, `trimtab up` and simulated members all start here."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import orjson

from trimtab.api import kinds as kind_modules
from trimtab.api.kind import Kind, OtherVersion, kinds
from trimtab.api.kinds.native.event import to_core, to_events_v1
from trimtab.api.kinds.native.metrics import GROUP as METRICS_GROUP
from trimtab.api.schema.from_types import crd, schema_for
from trimtab.api.value import Raw
from trimtab.clock import Clock, WallClock, timestamp
from trimtab.errors import Expired, Unavailable
from trimtab.registry import discover
from trimtab.server.admission.budget_warnings import Doubts
from trimtab.server.admission.builtin_defaults import Births
from trimtab.server.admission.chain import Admission, Plugin
from trimtab.server.admission.pdb_rate_history import Rememberings
from trimtab.server.admission.priority_order import Priorities
from trimtab.server.admission.webhooks import GROUP as WEBHOOK_GROUP
from trimtab.server.admission.webhooks import Webhooks
from trimtab.server.auth.access_reviews import Reviews
from trimtab.server.auth.authenticate import Authenticator, Tokens
from trimtab.server.auth.authorize import GROUP as RBAC_GROUP
from trimtab.server.auth.authorize import Authorizer
from trimtab.server.auth.escalation import Escalation
from trimtab.server.auth.user import Caller, User
from trimtab.server.background.bootstrap import first_objects
from trimtab.server.background.garbage_collector import Collector
from trimtab.server.discovery.discovery import Discovery
from trimtab.server.discovery.openapi import OpenApi
from trimtab.server.http.asgi import Edge
from trimtab.server.http.dispatch import Handler
from trimtab.server.http.nonresource_paths import Landing
from trimtab.server.registry.cel_rules import rules
from trimtab.server.registry.crds import CRD, PREFIX, Definitions, complaints
from trimtab.server.registry.object_schema import Fitter
from trimtab.server.registry.patch_requests import Patcher
from trimtab.server.registry.resource_store import Computed, Verbs
from trimtab.server.registry.resources import Catalogue, Served
from trimtab.server.storage.uids import random_uid
from trimtab.server.subresources.dispatch import Output, Subresources
from trimtab.store.store import Store
from trimtab.telemetry import Sample

_EVENTS = "/registry/core/events/"
_EVENT_LIFE = timedelta(hours=1)
_EVENT_SWEEP_SECONDS = 300.0
log = logging.getLogger("trimtab.server")


class Settings(NamedTuple):
    """What may differ between servers."""

    clock: Clock = WallClock()
    static_tokens: Mapping[str, User] = {}
    token_key: bytes = b""
    plugins: Sequence[Plugin] = ()
    """Further admission, such as policy admission in `trimtab up`."""
    store_plugins: Sequence[Callable[[Store], Plugin]] = ()
    """Further admission that looks at what is stored."""
    new_uid: Callable[[], str] = random_uid
    collects: bool = True
    """Clean up after deletions, as a controller manager does beside a kube-apiserver."""
    several_budgets: bool = False
    """Ask all budgets of a pod, where Kubernetes refuses to judge."""
    output: Output | None = None
    """What containers have written; without it there are no kubelets to ask."""
    serves: Callable[[Kind], bool] = lambda _: True
    """Which of the declared kinds: a member cluster has none of the control plane's."""
    computed: Mapping[str, Computed] = {}
    """Who tells the objects of kinds that are never stored, by the kind's id; without a teller they are not served."""


class ApiServer:
    """One API server over one store, with its background duties."""

    def __init__(self, store: Store, settings: Settings = Settings()) -> None:  # noqa: B008 - a frozen value
        discover(kind_modules)
        self.store = store
        self.catalogue = Catalogue()
        self.fitter = Fitter(rules(), {CRD: complaints})
        self.authorizer = Authorizer(store)
        plugins: list[Plugin] = [Births(store), Priorities(store), Escalation(store, self.authorizer)]
        if settings.several_budgets:
            plugins += [Rememberings(), Doubts(store)]
        self.webhooks = Webhooks(store)
        plugins += [*(make(store) for make in settings.store_plugins), *settings.plugins, self.webhooks]
        self.admission = Admission(store.get, plugins)
        self.verbs = Verbs(store, self.catalogue, settings.clock, self.admission, self.fitter, new_uid=settings.new_uid)
        self.verbs.computed.update(settings.computed)
        self.verbs.after_writes[RBAC_GROUP] = self.authorizer.forget
        self.verbs.after_writes[WEBHOOK_GROUP] = self.admission.forget
        tokens = Tokens(settings.token_key or secrets.token_bytes(32), store.get)
        self.authenticator = Authenticator(tokens, settings.static_tokens, settings.clock.now)
        self.patcher = Patcher(self.verbs)
        self.subresources = Subresources(
            self.verbs, self.patcher, tokens, several_budgets=settings.several_budgets, output=settings.output
        )
        self.tells: list[Callable[[], Iterable[Sample]]] = []
        """What those who build this server into something larger have to say in its metrics."""
        self.landing = Landing(
            self.catalogue, Discovery(self.catalogue), OpenApi(self.catalogue), self._checks(), self._metrics
        )
        self.handler = Handler(
            self.verbs,
            self.landing,
            self.authenticator,
            self.authorizer,
            subresources=self.subresources,
            reviews=Reviews(self.verbs, self.authenticator, self.authorizer),
            patcher=self.patcher,
        )
        self.definitions = Definitions(self.verbs, self.fitter)
        self.app = Edge(self.handler)
        self._collects = settings.collects
        self._duties: list[asyncio.Task[None]] = []
        self._kinds = [
            kind
            for kind in kinds.values()
            if settings.serves(kind) and (kind.group != METRICS_GROUP or kind.id in settings.computed)
        ]
        for kind in self._kinds:
            for served in served_by(kind):
                self.catalogue.add(served)

    def _metrics(self) -> str:
        counts = {served.storage: self.store.count(served.prefix) for served in self.catalogue.stored()}
        further = [sample for tell in self.tells for sample in tell()]
        return self.app.requests.text(counts, self.app.watchers, self.store.revision, further)

    def _checks(self) -> dict[str, Callable[[], bool]]:
        return {"ping": lambda: True, "log": lambda: True, "etcd": self._stores, "shutdown": lambda: True}

    def _stores(self) -> bool:
        return self.store.fault is None

    async def start(self) -> None:
        """Write what a new server needs, then begin the background duties."""
        await self.verbs.seed((*first_objects(), *map(_definition, self._declared())), Caller(agent="kube-apiserver"))
        self.definitions.load()
        self._begin(self.definitions.follow)
        if self._collects:
            self._begin(Collector(self.verbs).run)
            self._begin(self._expire_events)

    def _declared(self) -> list[Kind]:
        """Kinds of ours that are not yet in the store as definitions."""
        return [kind for kind in self._kinds if kind.custom and self.store.get(f"{PREFIX}{kind.id}") is None]

    def _begin(self, duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(_anew(duty))
        task.add_done_callback(_ended)
        self._duties.append(task)

    async def _expire_events(self) -> None:
        """Events tell of the last hour."""
        while True:
            await asyncio.sleep(_EVENT_SWEEP_SECONDS)
            oldest = timestamp(self.verbs.clock.now() - _EVENT_LIFE)
            old = [entry for entry in self.store.list(_EVENTS).entries if _last_seen(entry.value) < oldest]
            for entry in old:
                await self.store.delete(entry.key)

    async def stop(self) -> None:
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        await self.store.close()


def _ended(duty: asyncio.Task[None]) -> None:
    """A duty ends only with the server; any other end is a fault that somebody must see."""
    if not duty.cancelled() and (fault := duty.exception()) is not None and not isinstance(fault, Unavailable):
        log.error("a duty of the API server ended", exc_info=fault)


def _last_seen(value: bytes) -> str:
    """When an event was written or seen last, whichever is later."""
    event = orjson.loads(value)
    series = event.get("series") or {}
    moments = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(moment or "" for moment in moments)


async def _anew(duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A duty that fell behind what the store remembers begins again, with a look at everything."""
    while True:
        try:
            await duty()
        except Expired:
            continue
        else:
            return


def served_by(kind: Kind) -> list[Served]:
    """Every version in which a declared kind is served."""
    return [_in_version(kind, version) for version in (kind.version, *kind.other_versions)]


def _in_version(kind: Kind, version: str) -> Served:
    other = kind.other_versions.get(version, OtherVersion())
    if kind.id == "events.events.k8s.io":  # the newer form of what the core group stores
        return Served(kind, version, schema=dict, stored_as="events", outward=to_events_v1, inward=to_core)
    return Served(
        kind,
        version,
        schema=lambda: schema_for(kind, version),
        outward=other.from_stored,
        inward=other.to_stored,
    )


def _definition(kind: Kind) -> Raw:
    """A kind of ours as the definition that clients look for."""
    made = crd(kind)
    for version in made["spec"]["versions"]:
        version["served"] = True
    return made
