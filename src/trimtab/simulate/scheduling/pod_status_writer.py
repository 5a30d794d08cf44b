"""Writes the status of pods on behalf of the pod scheduler of a simulated cluster."""

import contextlib

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import resource_of
from trimtab.clock import Clock, timestamp
from trimtab.errors import Conflict, NotFound
from trimtab.runtime.cache import Cache

PODS = resource_of(kind_of(Pod))
FIELD_MANAGER = "kube-scheduler"


class PodStatusWriter:
    """Patches pod status and puts the result into the cache, so that the next decision sees it."""

    def __init__(self, cache: Cache, clock: Clock) -> None:
        self._cache, self._clock = cache, clock

    async def set_condition(self, pod: Pod, condition: Raw) -> None:
        """Set this condition on the pod, unless the pod has it already."""
        entry = self._cache.table(PODS).entries.get((pod.namespace, pod.name))
        if entry is None:
            return
        conditions = (entry.raw.get("status") or {}).get("conditions") or []
        known: Raw = next((one for one in conditions if one["type"] == condition["type"]), {})
        if condition.items() <= known.items():
            return
        unchanged = known.get("status") == condition["status"]
        since = known["lastTransitionTime"] if unchanged else timestamp(self._clock.now())
        others = [one for one in conditions if one["type"] != condition["type"]]
        body = {
            "metadata": {"resourceVersion": entry.revision},
            "status": {"conditions": [*others, {**condition, "lastTransitionTime": since}]},
        }
        with contextlib.suppress(NotFound, Conflict):  # a failed report must not stop the scheduling decision
            await self._patch(pod, body)

    async def set_nominated_node(self, pod: Pod, node: str | None) -> None:
        """Write the node reserved for the pod into its status; `None` clears it."""
        await self._patch(pod, {"status": {"nominatedNodeName": node}})

    async def _patch(self, pod: Pod, body: Raw) -> None:
        written = await self._cache.client.patch(
            PODS, pod.namespace, pod.name, body, subresource="status", manager=FIELD_MANAGER
        )
        self._cache.table(PODS).put(written)
