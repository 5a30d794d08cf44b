"""The pull agent: runs beside a member, applies its Works, and renews a Lease on the host as its heartbeat."""

import asyncio
import logging

from trimtab import __version__
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.errors import AlreadyExists, ApiError, NotFound
from trimtab.members.join import CLUSTER_NAMESPACE
from trimtab.runtime.control_plane_identity import NAMESPACES
from trimtab.runtime.leader_election import LEASES, VERSION_ANNOTATION, micro_time

RENEW_SECONDS = 10.0
LEASE_SECONDS = 40
CONTROLLERS = ("endpoint_slice_collection", "execute", "health")
"""The controllers of the control plane that an agent runs, for its own cluster only."""

log = logging.getLogger("trimtab.agent")


class Heartbeat:
    """Renews the Lease `karmada-cluster/<cluster>` on the host for as long as it runs."""

    def __init__(self, host: Client, cluster: str, clock: Clock, *, period: float = RENEW_SECONDS) -> None:
        self._host = host
        self._cluster = cluster
        self._clock = clock
        self._period = period

    async def run(self) -> None:
        while True:
            try:
                await self.renew_lease()
            except (ApiError, OSError, TimeoutError) as fault:
                log.warning("cannot renew the lease: %s", fault, extra={"cluster": self._cluster})
            await asyncio.sleep(self._period)

    async def renew_lease(self) -> None:
        """Renew the Lease; create it and its namespace if they do not exist."""
        spec = {
            "holderIdentity": self._cluster,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_time(self._clock.now()),
        }
        annotations = {VERSION_ANNOTATION: __version__}
        renewed = {"metadata": {"annotations": annotations}, "spec": spec}
        try:
            await self._host.patch(LEASES, CLUSTER_NAMESPACE, self._cluster, renewed, manager="trimtab-agent")
        except NotFound:
            await self._ensure(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLUSTER_NAMESPACE}}
            )
            lease: Raw = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"namespace": CLUSTER_NAMESPACE, "name": self._cluster, "annotations": annotations},
                "spec": spec,
            }
            await self._ensure(LEASES, lease)

    async def _ensure(self, resource: Resource, obj: Raw) -> None:
        try:
            await self._host.create(resource, obj, manager="trimtab-agent")
        except AlreadyExists:
            return
