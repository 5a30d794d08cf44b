"""Workloads that tests roll out over a whole fleet."""

import asyncio
import contextlib
from typing import Any

from kube.fleet import NAMESPACES, RealFleet, wait_until

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.errors import NotFound

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
SAMPLE_SECONDS = 0.2
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")


def deployment(namespace: str, number: int) -> dict[str, Any]:
    name = f"web-{number}"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        },
    }


def policy(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"namespace": namespace, "name": "everywhere"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
        },
    }


async def delete_namespace(fleet: RealFleet, namespace: str) -> None:
    """Delete the namespace everywhere and wait until it is gone."""
    await fleet.client.delete(NAMESPACES, "", namespace)
    await wait_until(lambda: is_gone(fleet, namespace))


async def is_gone(fleet: RealFleet, namespace: str) -> bool:
    for client in (fleet.client, *fleet.members.values()):
        with contextlib.suppress(NotFound):
            await client.get(NAMESPACES, "", namespace)
            return False
    return True


class ReadyReplicas:
    """Reads again and again how many replicas of one Deployment are ready."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client
        self._place = namespace, name
        self.fewest: int | None = None
        self._sampling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._sampling = asyncio.ensure_future(self._sample())

    async def stop(self) -> None:
        assert self._sampling is not None
        assert not self._sampling.done(), self._sampling
        self._sampling.cancel()

    async def _sample(self) -> None:
        while True:
            found = await self._client.get(DEPLOYMENTS, *self._place)
            ready = (found.get("status") or {}).get("readyReplicas", 0)
            self.fewest = ready if self.fewest is None else min(self.fewest, ready)
            await asyncio.sleep(SAMPLE_SECONDS)
