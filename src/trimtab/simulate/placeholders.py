"""Pods without owner that occupy nodes of a simulated member, so that only a part of their capacity is free."""

import contextlib
from collections.abc import Mapping

from trimtab.api.quantity import from_milli
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.errors import AlreadyExists, NotFound
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler

PLACEHOLDER_LABEL = "simulate.trimtab.dev/placeholder"


class Placeholders:
    """The placeholder pods of one member, at most one on each node."""

    def __init__(self, client: Client, scheduler: PodScheduler) -> None:
        self._client = client
        self._scheduler = scheduler

    async def fill_nodes(self, fraction: float = 1.0) -> None:
        """Occupy this fraction of the free capacity of every node."""
        for here in list(self._scheduler.fleet.nodes):
            if here.free_pods > 0:
                needs = {name: int(here.free_amount(name) * fraction) for name in ("cpu", "memory")}
                await self._create(here.name, needs)

    async def occupy_nodes(self, amounts: Mapping[str, int]) -> None:
        """Occupy so much of every node (CPU in thousandths), but not more than is free."""
        for here in list(self._scheduler.fleet.nodes):
            needs = {name: min(amounts.get(name, 0), here.free_amount(name)) for name in ("cpu", "memory")}
            await self._create(here.name, needs)

    async def delete(self) -> None:
        await delete_placeholders(self._client)

    async def _create(self, node: str, needs: dict[str, int]) -> None:
        if any(amount > 0 for amount in needs.values()):
            with contextlib.suppress(AlreadyExists):
                await self._client.create(PODS, placeholder_pod(node, needs), manager="placeholder")


async def delete_placeholders(client: Client) -> None:
    """Delete the placeholders of all nodes of a cluster."""
    for pod in (await client.list(PODS, "kube-system", labels=PLACEHOLDER_LABEL)).items:
        with contextlib.suppress(NotFound):
            await client.delete(PODS, "kube-system", pod["metadata"]["name"], grace_seconds=0)


def placeholder_pod(node: str, amounts: dict[str, int]) -> Raw:
    """A pod without owner that occupies so much of a node."""
    requests = {"cpu": from_milli(amounts["cpu"]), "memory": str(amounts["memory"])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"placeholder-{node}", "namespace": "kube-system", "labels": {PLACEHOLDER_LABEL: "true"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "placeholder", "image": "placeholder", "resources": {"requests": requests}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
