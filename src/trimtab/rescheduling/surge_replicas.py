"""One more replica of a Deployment while a pod of it is evicted, where no replica can be spared.

What was added is in an annotation of the Deployment, so that it is removed once, whatever response is lost.
"""

import asyncio
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import Client, resource_of
from trimtab.controllers.pods.owners import SURGED_ANNOTATION
from trimtab.decide.pods.budgets.pod_budgets import is_over_pods, selects
from trimtab.errors import ApiError, Conflict, NotFound
from trimtab.rescheduling.eviction_client import RETRY_SECONDS, RETRYABLE

BUDGETS, DEPLOYMENTS, REPLICASETS = (resource_of(kind_of(one)) for one in (DisruptionBudget, Deployment, ReplicaSet))
SURGE = "trimtab.dev/drain-surge"
"""On a workload: `Allowed` lets a drain start the replacement first when no replica can be spared."""


class SurgeReplicas:
    """Adds and removes replicas."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def deployment_of(self, pod: Raw) -> tuple[str, str] | None:
        """The Deployment of the pod by namespace and name, if it or its budget allows a surge."""
        namespace = pod["metadata"]["namespace"]
        try:
            set_ = await self._client.get(REPLICASETS, namespace, _owner_name(pod, "ReplicaSet"))
            deployment = await self._client.get(DEPLOYMENTS, namespace, _owner_name(set_, "Deployment"))
        except (ApiError, OSError, TimeoutError):
            return None
        annotated = (deployment["metadata"].get("annotations") or {}).get(SURGE) == "Allowed"
        if annotated or await self._budget_allows(pod):
            return namespace, deployment["metadata"]["name"]
        return None

    async def _budget_allows(self, pod: Raw) -> bool:
        seen: Any = kind_of(Pod).decode(pod)
        try:
            budgets = (await self._client.list(BUDGETS, pod["metadata"]["namespace"])).items
        except (ApiError, OSError, TimeoutError):
            return False  # a cluster that does not serve our budgets, or is unavailable
        found: list[Any] = [kind_of(DisruptionBudget).decode(one) for one in budgets]
        return any(one.spec.surge == "Allowed" and is_over_pods(one) and selects(one, seen) for one in found)

    async def add(self, namespace: str, name: str) -> None:
        await self._scale(namespace, name, 1)

    async def remove(self, namespace: str, name: str) -> None:
        """Retry until it is written, also while the API server is unavailable."""
        while True:
            try:
                await self._scale(namespace, name, -1)
            except RETRYABLE:
                await asyncio.sleep(RETRY_SECONDS)
            except NotFound:
                return  # the workload was deleted, and with it the added replica
            else:
                return

    async def _scale(self, namespace: str, name: str, change: int) -> None:
        while True:
            seen = await self._client.get(DEPLOYMENTS, namespace, name)
            surged = int((seen["metadata"].get("annotations") or {}).get(SURGED_ANNOTATION) or 0) + change
            if surged < 0:
                return  # a response was lost: it was removed already, or never added
            patch = {
                "metadata": {
                    "resourceVersion": seen["metadata"]["resourceVersion"],
                    "annotations": {SURGED_ANNOTATION: str(surged) if surged > 0 else None},
                },
                "spec": {"replicas": int(seen["spec"].get("replicas", 1)) + change},
            }
            try:
                await self._client.patch(DEPLOYMENTS, namespace, name, patch, manager="trimtab-drain")
            except Conflict:
                continue
            return


def _owner_name(thing: Raw, kind: str) -> str:
    owners: list[Raw] = thing["metadata"].get("ownerReferences") or []
    return next((str(one["name"]) for one in owners if one.get("controller") and one["kind"] == kind), "-")
