"""The reachable members: a client for each joined cluster, and a cache of the managed objects in it."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.client.discovery import resources_of_version
from trimtab.client.responses import decode_object
from trimtab.controllers.contract import NOT_FETCHED, NotFetched, Ref
from trimtab.errors import ApiError, InputError, NotFound
from trimtab.runtime.cache import Cache, CacheEntry, Table
from trimtab.runtime.decoded_entries import DecodedEntries
from trimtab.runtime.saved_tables import SavedPart, SavedTables
from trimtab.tasks import wait_for_tasks

MANAGED_LABEL = "karmada.io/managed"
MANAGED_SELECTOR = f"{MANAGED_LABEL}=true"
UNMANAGED_SECONDS = 5.0
"""How long the result of reading an unmanaged object is valid; unmanaged objects are not watched."""

FOLLOW_SECONDS = 30.0
"""How long the first list of all objects of a kind may take."""

log = logging.getLogger("trimtab.members")

MemberChangeListener = Callable[[str, Raw | None, Raw | None], None]
Connect = Callable[[Cluster], Client | None]
"""Creates a client for the cluster; `None` while its credentials cannot be read."""
FindSaved = Callable[[str, str], SavedTables | None]


def address_of(cluster: Cluster) -> str:
    """A text that changes with whatever the client of the member depends on."""
    spec = cluster.spec
    return repr((spec.api_endpoint, spec.secret_ref, spec.sync_mode, cluster.metadata.uid))


class MemberHandle:
    """One member: its client, and a cache of the objects that carry the managed label."""

    def __init__(
        self,
        name: str,
        client: Client,
        listener: MemberChangeListener,
        decoded: DecodedEntries | None = None,
        saved: SavedTables | None = None,
    ) -> None:
        """`saved` are the managed objects as a process before this one knew them."""
        self.name = name
        self.client = client
        self.unfiltered_cache = Cache(client, decoded=decoded)
        """Tables without a label selector, for the probe (nodes, pods)."""
        self._managed_cache = self._new_managed_cache(decoded, saved, listener)
        self._other_versions: dict[str, Cache] = {}
        """Managed objects of kinds whose table in the cache has another version, by apiVersion."""
        self._new_version_cache = partial(self._new_managed_cache, decoded, None, listener)
        for resource in saved.resources() if saved is not None else ():
            self._managed_cache.table(resource)
        self._followed: set[str] = set()
        self._listener = listener
        self._resources: dict[tuple[str, str], Resource] = {}
        self._discovered: Sequence[Resource] = ()
        self._unserved: set[tuple[str, str]] = set()
        """Kinds that the member did not serve when they were last asked for."""
        self._unmanaged: dict[tuple[Resource, str, str], tuple[float, Raw]] = {}

    def _new_managed_cache(
        self, decoded: DecodedEntries | None, saved: SavedTables | None, listener: MemberChangeListener
    ) -> Cache:
        cache = Cache(self.client, labels=MANAGED_SELECTOR, decoded=decoded, saved=saved)
        cache.add_table_listener(
            lambda table: table.add_listener(partial(self._object_changed, listener), only_changes=True)
        )
        cache.compare_saved()
        return cache

    def _managed_table(self, resource: Resource) -> Table:
        """The managed objects of a kind in this version: a server returns each object in the version that is asked for."""
        table = self._managed_cache.table(resource)
        if table.resource.version == resource.version:
            return table
        if resource.api_version not in self._other_versions:
            self._other_versions[resource.api_version] = self._new_version_cache()
        return self._other_versions[resource.api_version].table(resource)

    def _object_changed(self, listener: MemberChangeListener, old: CacheEntry | None, new: CacheEntry | None) -> None:
        listener(self.name, old.raw if old else None, new.raw if new else None)

    def get_cached(self, ref: Ref) -> Raw | NotFetched | None:
        resource = self._resources.get((ref.api_version, ref.kind))
        if resource is None:
            return None if (ref.api_version, ref.kind) in self._unserved else NOT_FETCHED
        table = self._managed_table(resource)
        if table.needs_comparison:
            return NOT_FETCHED
        name = (ref.namespace if resource.namespaced else "", ref.name)
        if (entry := table.entries.get(name)) is not None:
            return entry.raw
        if (found := self._find_unmanaged(resource, *name)) is not None:
            return found
        return None if table.synced.is_set() else NOT_FETCHED

    def _find_unmanaged(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        cached = self._unmanaged.get((resource, namespace, name))
        if cached is None:
            return None
        if asyncio.get_running_loop().time() - cached[0] > UNMANAGED_SECONDS:
            del self._unmanaged[resource, namespace, name]
            return None
        return cached[1]

    async def follow(self, api_version: str, kind: str) -> None:
        """List and watch all objects of a kind, not only the managed ones; returns when they are listed."""
        resource = await self.resource(api_version, kind)
        table = self.unfiltered_cache.table(resource)
        if resource.id not in self._followed:
            self._followed.add(resource.id)
            table.add_listener(partial(self._object_changed, self._listener))
        async with asyncio.timeout(FOLLOW_SECONDS):
            await table.synced.wait()

    def list_followed(self, api_version: str, kind: str) -> Sequence[Raw] | NotFetched:
        resource = self._resources.get((api_version, kind))
        if resource is None or resource.id not in self._followed:
            return NOT_FETCHED
        table = self.unfiltered_cache.table(resource)
        return [table.entries[name].raw for name in table.names()] if table.synced.is_set() else NOT_FETCHED

    async def is_listed(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether the first list of the managed objects, which this waits for, has the object.

        After a restart it has nearly every object, so that these need not be read one by one.
        """
        table = self._managed_table(resource)
        await table.attempted.wait()
        return (namespace if resource.namespaced else "", name) in table.entries

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The member's resource for this kind; reads discovery again if the kind is unknown."""
        if (api_version, kind) not in self._resources:
            await self.discover()
        if (api_version, kind) not in self._resources:
            await self._discover_version(api_version)
        if (api_version, kind) not in self._resources:
            self._unserved.add((api_version, kind))
            raise NotFound(f"the cluster {self.name} does not serve {api_version} {kind}")
        self._unserved.discard((api_version, kind))
        return self._resources[api_version, kind]

    async def discover(self) -> Sequence[Resource]:
        """The resources that the member serves; the same sequence as before if the client says that nothing changed."""
        found = await self.client.resources()
        if found is not self._discovered:
            self._discovered = found
            for resource in found:
                self._resources[resource.api_version, resource.kind] = resource
        return found

    async def _discover_version(self, api_version: str) -> None:
        """Add the resources of one version, which need not be the preferred one of its group."""
        reply = await self.client.fetch(f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")
        if reply.code == HTTPStatus.NOT_FOUND:
            return
        if reply.code != HTTPStatus.OK:
            raise ApiError(f"the cluster {self.name} does not say what {api_version} has: HTTP {reply.code}")
        for resource in resources_of_version(api_version, decode_object(reply.body)):
            self._resources.setdefault((api_version, resource.kind), resource)

    def put_cached(self, resource: Resource, namespace: str, name: str, raw: Raw | None) -> None:
        table = self._managed_table(resource)
        self._unmanaged.pop((resource, namespace, name), None)
        if raw is None:
            table.drop((namespace, name))
        elif (raw["metadata"].get("labels") or {}).get(MANAGED_LABEL) == "true":
            table.put(raw)
        else:
            table.drop((namespace, name), raw["metadata"].get("resourceVersion", ""))
            self._unmanaged[resource, namespace, name] = (asyncio.get_running_loop().time(), raw)

    def save(self) -> Iterator[SavedPart]:
        """The managed objects, for the next process."""
        return self._managed_cache.save()

    async def close(self) -> None:
        for cache in (self._managed_cache, *self._other_versions.values(), self.unfiltered_cache):
            await cache.close()
        await self.client.close()


class Roster:
    """Joined clusters by name; follows Cluster objects as they are created, deleted or change their address."""

    def __init__(
        self,
        host: Cache,
        connect: Connect,
        listener: MemberChangeListener,
        saved: FindSaved = lambda _name, _address: None,
    ) -> None:
        """`saved` finds what a process before this one knew of a member under an address."""
        self._saved = saved
        self._connect = connect
        self._listener = listener
        self._decoded = host.decoded
        self._members: dict[str, MemberHandle] = {}
        self._addresses: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        host.table_of(Cluster).add_listener(self._cluster_changed)

    def get(self, cluster: str) -> MemberHandle | None:
        return self._members.get(cluster)

    def names(self) -> list[str]:
        return sorted(self._members)

    def _cluster_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None:
            self._disconnect(cast("CacheEntry", old).name[1])
            return
        cluster = cast("Cluster", new.typed)
        if self._addresses.get(cluster.name) != address_of(cluster):
            self._disconnect(cluster.name)
            self._connect_member(cluster)

    def _connect_member(self, cluster: Cluster) -> None:
        try:
            client = self._connect(cluster)
        except (InputError, ValueError) as fault:
            log.warning("cannot connect to the member: %s", fault, extra={"cluster": cluster.name})
            return
        if client is not None:
            self._addresses[cluster.name] = address_of(cluster)
            saved = self._saved(cluster.name, self._addresses[cluster.name])
            self._members[cluster.name] = MemberHandle(cluster.name, client, self._listener, self._decoded, saved)

    def retry_connection(self, cluster: Cluster) -> None:
        """Try again to create a client: credentials may be created after the cluster."""
        if cluster.name not in self._members:
            self._connect_member(cluster)

    def disconnect(self, name: str) -> None:
        """Close the connection to a member that another process serves now."""
        self._disconnect(name)

    def _disconnect(self, name: str) -> None:
        self._addresses.pop(name, None)
        if member := self._members.pop(name, None):
            task = asyncio.get_running_loop().create_task(member.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def addresses(self) -> dict[str, str]:
        """The address of each member by name."""
        return dict(self._addresses)

    async def close(self) -> None:
        for name in self.names():
            self._disconnect(name)
        await wait_for_tasks(self._closing, log)
