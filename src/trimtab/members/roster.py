"""The reachable members: a client for each joined cluster, and a cache of the managed objects in it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.contract import NOT_FETCHED, NotFetched, Ref
from trimtab.errors import InputFault, NotFound
from trimtab.runtime.cache import Cache, Entry, Table

MANAGED = "karmada.io/managed"
OURS = f"{MANAGED}=true"
FOREIGN_SECONDS = 5.0
"""How long the result of reading an unmanaged object is valid; unmanaged objects are not watched."""

log = logging.getLogger("trimtab.members")

Heard = Callable[[str, Raw | None, Raw | None], None]
Connect = Callable[[Cluster], Client | None]
"""Creates a client for the cluster; `None` while its credentials cannot be read."""


class MemberHandle:
    """One member: its client, and a cache of the objects that carry the managed label."""

    def __init__(self, name: str, client: Client, heard: Heard) -> None:
        self.name = name
        self.client = client
        self.everything = Cache(client)
        """Tables without a label selector, for the probe (nodes, pods)."""
        self._ours = Cache(client, labels=OURS)
        self._ours.follow(lambda table: table.listen(partial(self._changed, heard)))
        self._resources: dict[tuple[str, str], Resource] = {}
        self._foreign: dict[tuple[str, str, str], tuple[float, Raw]] = {}

    def _changed(self, heard: Heard, old: Entry | None, new: Entry | None) -> None:
        heard(self.name, old.raw if old else None, new.raw if new else None)

    def seen(self, ref: Ref) -> Raw | NotFetched | None:
        resource = self._resources.get((ref.api_version, ref.kind))
        if resource is None:
            return NOT_FETCHED
        table = self._ours.table(resource)
        name = (ref.namespace if resource.namespaced else "", ref.name)
        if (entry := table.entries.get(name)) is not None:
            return entry.raw
        if (found := self._foreign_at(resource, *name)) is not None:
            return found
        return None if table.synced.is_set() else NOT_FETCHED

    def _foreign_at(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        cached = self._foreign.get((resource.id, namespace, name))
        if cached is None:
            return None
        if asyncio.get_running_loop().time() - cached[0] > FOREIGN_SECONDS:
            del self._foreign[resource.id, namespace, name]
            return None
        return cached[1]

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The member's resource for this kind; reads discovery again if the kind is unknown."""
        if (api_version, kind) not in self._resources:
            await self.discover()
        if (api_version, kind) not in self._resources:
            raise NotFound(f"the cluster {self.name} does not serve {api_version} {kind}")
        return self._resources[api_version, kind]

    async def discover(self) -> list[Resource]:
        found = list(await self.client.resources())
        for resource in found:
            self._resources[resource.api_version, resource.kind] = resource
        return found

    def learn(self, resource: Resource, namespace: str, name: str, raw: Raw | None) -> None:
        table: Table = self._ours.table(resource)
        self._foreign.pop((resource.id, namespace, name), None)
        if raw is None:
            table.drop((namespace, name))
        elif (raw["metadata"].get("labels") or {}).get(MANAGED) == "true":
            table.put(raw)
        else:
            table.drop((namespace, name), raw["metadata"].get("resourceVersion", ""))
            self._foreign[resource.id, namespace, name] = (asyncio.get_running_loop().time(), raw)

    async def close(self) -> None:
        await self._ours.close()
        await self.everything.close()
        await self.client.close()


class Roster:
    """Joined clusters by name; follows Cluster objects as they are created, deleted or change their address."""

    def __init__(self, host: Cache, connect: Connect, heard: Heard) -> None:
        self._connect = connect
        self._heard = heard
        self._members: dict[str, MemberHandle] = {}
        self._addresses: dict[str, object] = {}
        self._closing: set[asyncio.Task[None]] = set()
        host.table_of(Cluster).listen(self._cluster_changed)

    def get(self, cluster: str) -> MemberHandle | None:
        return self._members.get(cluster)

    def names(self) -> list[str]:
        return sorted(self._members)

    def _cluster_changed(self, old: Entry | None, new: Entry | None) -> None:
        if new is None:
            self._drop(cast("Entry", old).name[1])
            return
        cluster = cast("Cluster", new.typed)
        address = (cluster.spec.api_endpoint, cluster.spec.secret_ref, cluster.spec.sync_mode, cluster.metadata.uid)
        if self._addresses.get(cluster.name) != address:
            self._drop(cluster.name)
            self._join(cluster, address)

    def _join(self, cluster: Cluster, address: object) -> None:
        try:
            client = self._connect(cluster)
        except (InputFault, ValueError) as fault:
            log.warning("cannot connect to %s: %s", cluster.name, fault)
            return
        if client is not None:
            self._members[cluster.name] = MemberHandle(cluster.name, client, self._heard)
            self._addresses[cluster.name] = address

    def retry(self, cluster: Cluster) -> None:
        """Try again to create a client: credentials may be created after the cluster."""
        if cluster.name not in self._members:
            self._join(
                cluster,
                (cluster.spec.api_endpoint, cluster.spec.secret_ref, cluster.spec.sync_mode, cluster.metadata.uid),
            )

    def _drop(self, name: str) -> None:
        self._addresses.pop(name, None)
        if member := self._members.pop(name, None):
            task = asyncio.get_running_loop().create_task(member.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for name in self.names():
            self._drop(name)
        for task in list(self._closing):
            with contextlib.suppress(Exception):
                await task
