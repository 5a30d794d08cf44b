"""Heartbeats of simulated kubelets: the lease of every node is renewed as long as its machine is up."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.errors import AlreadyExists, ApiError, NotFound
from trimtab.runtime.cache import Cache
from trimtab.simulate.kubelets.machine import SimulatedMachine
from trimtab.simulate.kubelets.node_status import FIELD_MANAGER

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAMESPACE = "kube-node-lease"
HEARTBEATS_PER_LEASE = 4
"""Lease duration in heartbeats, as with stock kubelets."""


class NodeLeases:
    """Creates and renews the leases of nodes; does nothing when heartbeats are disabled."""

    def __init__(self, cache: Cache, client: Client, clock: Clock, seconds: float) -> None:
        self._cache, self._client, self._clock = cache, client, clock
        self._seconds = seconds
        """Seconds between the heartbeats of each node; 0 disables heartbeats."""

    async def create(self, node: str, uid: str = "") -> None:
        """Create the lease, owned by the node with this uid, so that it goes with its node."""
        if not self._seconds:
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node, "namespace": LEASE_NAMESPACE, **({"ownerReferences": [owner]} if uid else {})},
            "spec": {
                "holderIdentity": node,
                "leaseDurationSeconds": int(self._seconds * HEARTBEATS_PER_LEASE),
                "renewTime": micro_time(self._clock.now()),
            },
        }
        try:
            await self._client.create(LEASES, lease, manager=FIELD_MANAGER)
        except AlreadyExists:
            await self.renew(node)

    async def renew(self, node: str) -> None:
        if not self._seconds:
            return
        spec = {"renewTime": micro_time(self._clock.now())}
        try:
            lease = await self._client.patch(LEASES, LEASE_NAMESPACE, node, {"spec": spec}, manager=FIELD_MANAGER)
        except NotFound:
            await self.create(node)
        else:
            if table := self._cache.find_table(
                LEASES.id
            ):  # after a stall no controller must act on an expired lease that has been renewed
                table.put(lease)


class Heartbeats:
    """Renews the leases of all machines that are up, together."""

    def __init__(
        self,
        machines: Mapping[str, SimulatedMachine],
        leases: NodeLeases,
        *,
        is_reported_ready: Callable[[str], bool],
        report: Callable[[SimulatedMachine], Awaitable[None]],
    ) -> None:
        self._machines, self._leases = machines, leases
        self._is_reported_ready = is_reported_ready
        self._report = report
        """Reports a node ready, and the status of its pods."""

    async def run(self, seconds: float, rng: random.Random) -> None:
        """Renew the leases at this interval, after a random initial delay per cluster."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(seconds * rng.random())
        while True:
            began = loop.time()
            await self._renew_all()
            if loop.time() - began > seconds:
                await self._renew_all(report_status=True)
            await asyncio.sleep(seconds)

    async def _renew_all(self, *, report_status: bool = False) -> None:
        """Renew all leases; after missed heartbeats, or when a node is not reported ready, report its status too."""
        for name, machine in list(self._machines.items()):
            if machine.up:
                with contextlib.suppress(ApiError, OSError, TimeoutError):
                    await self._leases.renew(name)
                    if report_status or not self._is_reported_ready(name):
                        await self._report(machine)


def micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
