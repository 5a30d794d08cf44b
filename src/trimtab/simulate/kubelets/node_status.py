"""Registers the nodes of a simulated cluster and reports their status, as their kubelets do."""

import contextlib
from collections.abc import Collection, Mapping
from typing import cast

from trimtab.api.kinds.native.node import Node
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.errors import AlreadyExists, NotFound
from trimtab.runtime.cache import Cache
from trimtab.simulate.kubelets.machine import SimulatedMachine, node_conditions, node_object

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
FIELD_MANAGER = "kubelet"


def extended_resource_changes(node: Raw, own: Collection[str]) -> dict[str, str | None]:
    """What to change in the allocatable resources, so that they have the extended resources of the capacity."""
    status = node.get("status") or {}
    capacity, allocatable = (
        {name: str(amount) for name, amount in (status.get(part) or {}).items() if "/" in name and name not in own}
        for part in ("capacity", "allocatable")
    )
    changed: dict[str, str | None] = {
        name: amount for name, amount in capacity.items() if allocatable.get(name) != amount
    }
    return changed | dict.fromkeys(allocatable.keys() - capacity.keys())


class NodeStatusWriter:
    """Writes Node objects and their status."""

    def __init__(self, cache: Cache, client: Client, clock: Clock) -> None:
        self._cache, self._client, self._clock = cache, client, clock

    async def register(self, machine: SimulatedMachine) -> None:
        """Create the Node object; report the status if the node is registered already."""
        try:
            created = await self._client.create(NODES, node_object(machine, self._clock.now()), manager=FIELD_MANAGER)
            machine.uid = created["metadata"]["uid"]
        except AlreadyExists:
            await self.report(machine)

    async def report(self, machine: SimulatedMachine) -> None:
        """Report the node ready, and its pressures."""
        known = self._cache.table(NODES).entries.get(("", machine.plan.name))
        before = cast("Node", known.typed).status.conditions if known is not None else ()
        body = {"status": {"conditions": node_conditions(self._clock.now(), machine.pressures, before)}}
        with contextlib.suppress(NotFound):
            node = await self._client.patch(
                NODES, "", machine.plan.name, body, subresource="status", manager=FIELD_MANAGER
            )
            machine.uid = node["metadata"]["uid"]

    def is_reported_ready(self, node: str) -> bool:
        entry = self._cache.table(NODES).entries.get(("", node))
        return entry is None or cast("Node", entry.typed).is_ready

    async def report_capacity(self, machine: SimulatedMachine, factor: float) -> None:
        """Report the capacity multiplied by this factor; 1 is the actual capacity."""
        reported = {
            resource: str(int(amount * factor)) + ("m" if resource == "cpu" else "")
            for resource, amount in machine.capacity.items()
        }
        reported = machine.plan.pool.capacity if factor == 1 else reported
        body = {"status": {"allocatable": reported, "capacity": reported}}
        await self._client.patch(NODES, "", machine.plan.name, body, subresource="status", manager=FIELD_MANAGER)

    async def make_allocatable(self, node: str, resources: Mapping[str, str | None]) -> None:
        """Report resources that somebody else wrote into the capacity as allocatable; None removes one."""
        body = {"status": {"allocatable": dict(resources)}}
        with contextlib.suppress(NotFound):
            await self._client.patch(NODES, "", node, body, subresource="status", manager=FIELD_MANAGER)

    async def delete(self, node: str) -> None:
        await self._client.delete(NODES, "", node)
