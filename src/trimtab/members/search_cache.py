"""A cache of the objects that ResourceRegistries select, over all members: what the search and its proxy read.

A registry names clusters by a ClusterAffinity and kinds by their apiVersion and kind, optionally in one namespace. Every
selected kind is listed and watched once in each selected cluster that is ready, however many registries select it. Without
registries nothing is watched.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.search import ResourceRegistry
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.conditions import is_condition_true
from trimtab.errors import ApiError, InputError
from trimtab.runtime.cache import Cache, CacheEntry, Table
from trimtab.tasks import stop_tasks, wait_for_tasks

DISCOVERY_RETRY_SECONDS = 5.0

log = logging.getLogger("trimtab.members")

KindName = tuple[str, str]
"""apiVersion and kind."""
Selection = dict[KindName, frozenset[str]]
"""The selected kinds with their namespaces; no namespaces: all of them."""
Connect = Callable[[Cluster], Client | None]


class CachedObject(NamedTuple):
    cluster: str
    raw: Raw


class CachedTable(NamedTuple):
    """The objects of one kind in one cluster, as far as registries select them."""

    cluster: str
    client: Client
    table: Table
    namespaces: frozenset[str]

    def selects(self, namespace: str) -> bool:
        return not self.namespaces or namespace in self.namespaces

    def objects(self, namespace: str = "") -> Iterator[CachedObject]:
        for name in self.table.names():
            if self.selects(name[0]) and namespace in ("", name[0]):
                yield CachedObject(self.cluster, self.table.entries[name].raw)

    def get(self, namespace: str, name: str) -> CachedObject | None:
        entry = self.table.entries.get((namespace, name)) if self.selects(namespace) else None
        return CachedObject(self.cluster, entry.raw) if entry is not None else None


class ClusterSearch:
    """The cached kinds of one cluster."""

    def __init__(self, name: str, client: Client, changed: Callable[[], None]) -> None:
        self.name = name
        self._client = client
        self._cache = Cache(client)
        self._changed = changed
        self._selection: Selection = {}
        self._resources: dict[KindName, Resource] = {}
        self._discovering: asyncio.Task[None] | None = None

    def select(self, selection: Selection) -> None:
        """Watch these kinds and stop watching others."""
        for kind in self._selection.keys() - selection.keys():
            if (resource := self._resources.pop(kind, None)) is not None:
                self._cache.remove_table(resource.id)
        self._selection = selection
        if selection.keys() - self._resources.keys() and self._discovering is None:
            self._discovering = asyncio.get_running_loop().create_task(self._discover())

    async def _discover(self) -> None:
        """Find the resources of the selected kinds, and look again later for those that the cluster does not serve."""
        while missing := self._selection.keys() - self._resources.keys():
            try:
                served = {(one.api_version, one.kind): one for one in await self._client.resources()}
            except (ApiError, OSError, TimeoutError) as fault:
                log.info("cannot read the resources of %s: %s", self.name, fault)
                served = {}
            for kind in missing & served.keys():
                self._resources[kind] = served[kind]
                self._cache.table(served[kind])
                self._changed()
            if self._selection.keys() - self._resources.keys():
                await asyncio.sleep(DISCOVERY_RETRY_SECONDS)
        self._discovering = None

    def tables(self) -> Iterator[CachedTable]:
        for kind, resource in self._resources.items():
            yield CachedTable(self.name, self._client, self._cache.table(resource), self._selection[kind])

    async def close(self) -> None:
        if self._discovering is not None:
            await stop_tasks([self._discovering], log)
        await self._cache.close()
        await self._client.close()


class SearchCache:
    """Follows ResourceRegistries and Clusters, and keeps what they select."""

    def __init__(self, host: Cache, connect: Connect) -> None:
        self._connect = connect
        self._registries = host.table_of(ResourceRegistry)
        self._clusters = host.table_of(Cluster)
        self._members: dict[str, ClusterSearch] = {}
        self._uids: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self.registered: frozenset[KindName] = frozenset()
        """The kinds that any registry selects, in whichever cluster."""
        self._ended_by_change: weakref.WeakSet[asyncio.Event] = weakref.WeakSet()
        self._registries.add_listener(self._registry_changed)
        self._clusters.add_listener(self._cluster_changed)

    def tables(self, resource: tuple[str, str, str]) -> list[CachedTable]:
        """The cached tables of a resource (group, version, plural), by cluster."""
        return [
            table
            for name in sorted(self._members)
            for table in self._members[name].tables()
            if (table.table.resource.group, table.table.resource.version, table.table.resource.plural) == resource
        ]

    def all_tables(self) -> Iterator[CachedTable]:
        for name in sorted(self._members):
            yield from self._members[name].tables()

    def _registry_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        self._schedule()

    def _cluster_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if self._registries.entries and _selection_key(old) != _selection_key(new):
            self._schedule()

    def _schedule(self) -> None:
        """Select again, once for all changes of this turn of the loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._select)

    def _select(self) -> None:
        self._is_scheduled = False
        registries = [cast("ResourceRegistry", entry.typed) for entry in self._registries.entries.values()]
        self.registered = frozenset(
            (one.api_version, one.kind) for registry in registries for one in registry.spec.resource_selectors
        )
        clusters = {name[1]: cast("Cluster", entry.typed) for name, entry in self._clusters.entries.items()}
        wanted = {name: selection_of(cluster, registries) for name, cluster in clusters.items()}
        self._uids = {name: self._uids[name] for name in self._uids if name in self._members}
        for name in list(self._members):
            if not wanted.get(name) or self._uids[name] != connection_key(clusters[name]):
                self._drop(name)
        for name, selection in wanted.items():
            if selection and (member := self._members.get(name) or self._add(clusters[name])) is not None:
                member.select(selection)
        self._cached_kinds_changed()

    def end_on_change(self, ended: asyncio.Event) -> None:
        """Set the event when other kinds or clusters are cached: a watch over several clusters then ends."""
        self._ended_by_change.add(ended)

    def _cached_kinds_changed(self) -> None:
        for ended in self._ended_by_change:
            ended.set()
        self._ended_by_change.clear()

    def _add(self, cluster: Cluster) -> ClusterSearch | None:
        try:
            client = self._connect(cluster)
        except (InputError, ValueError) as fault:
            log.warning("cannot connect to %s: %s", cluster.name, fault)
            return None
        if client is None:
            return None
        member = self._members[cluster.name] = ClusterSearch(cluster.name, client, self._cached_kinds_changed)
        self._uids[cluster.name] = connection_key(cluster)
        return member

    def _drop(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._members.pop(name).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for name in list(self._members):
            self._drop(name)
        await wait_for_tasks(self._closing, log)


def connection_key(cluster: Cluster) -> str:
    """What a new connection is needed for."""
    return f"{cluster.metadata.uid} {cluster.spec.api_endpoint} {cluster.spec.secret_ref}"


def _selection_key(entry: CacheEntry | None) -> object:
    """The parts of a Cluster on which its selection depends; its status changes often."""
    if entry is None:
        return None
    cluster = cast("Cluster", entry.typed)
    labels: Mapping[str, str] = cluster.metadata.labels
    return (cluster.metadata.uid, labels, cluster.spec, is_condition_true(cluster.status.conditions, "Ready"))


def selection_of(cluster: Cluster, registries: list[ResourceRegistry]) -> Selection:
    """What the registries select in a cluster; nothing while it is not ready."""
    found: Selection = {}
    if not is_condition_true(cluster.status.conditions, "Ready") or cluster.metadata.deletion_timestamp:
        return found
    for registry in registries:
        if affinity_matcher(registry.spec.target_cluster)(cluster):
            for one in registry.spec.resource_selectors:
                kind = (one.api_version, one.kind)
                namespaces = frozenset({one.namespace} if one.namespace else ())
                before = found.get(kind)
                both_limited = before is None or (before and namespaces)
                found[kind] = (before or frozenset()) | namespaces if both_limited else frozenset()
    return found
