"""Nominations: nodes reserved for pods that wait for the victims of a preemption, or for the pod they replace."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.clock import Clock
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.preemption.preempt import is_preempted
from trimtab.errors import ApiError
from trimtab.runtime.cache import Cache
from trimtab.simulate.scheduling.cluster_state import ClusterState, PodName
from trimtab.simulate.scheduling.pod_status_writer import PODS, PodStatusWriter
from trimtab.simulate.scheduling.preemption import max_grace_seconds
from trimtab.simulate.workloads.owned_pods import PODS_BY_NODE

NOMINATION_SECONDS = 60.0
"""Lifetime of a nomination, counted from the end of the victims' grace periods."""


class Nomination(NamedTuple):
    """A node reserved for a pod until it is bound or the time is over."""

    node: str
    expiry_timer: asyncio.TimerHandle


class Nominations:
    """Reserves nodes in the state of the cluster, and writes reservations into the status of the pods."""

    def __init__(
        self,
        cache: Cache,
        state: ClusterState,
        status: PodStatusWriter,
        *,
        clock: Clock,
        find_pending: Callable[[PodName], Pod | None],
        on_release: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._state = state
        self._status = status
        self._clock = clock
        self._find_pending = find_pending
        self._on_release = on_release
        """Called when a node is free again for other pods."""
        self._nominations: dict[PodName, Nomination] = {}
        self._expected_replacements: dict[str, PodInfo] = {}
        """By owner: the placeholder under whose name a node is reserved for the owner's next pod."""
        self._status_tasks: set[asyncio.Task[None]] = set()
        """Writes of nominations that run in the background."""

    def close(self) -> None:
        for nomination in self._nominations.values():
            nomination.expiry_timer.cancel()
        for task in self._status_tasks:
            task.cancel()

    def node_of(self, name: PodName) -> str | None:
        """The node nominated for this pod."""
        nomination = self._nominations.get(name)
        return nomination.node if nomination is not None else None

    def add_for_victims(self, pod: PodInfo, node: str, victims: Sequence[PodInfo]) -> None:
        """Reserve the node for the pod until the victims had time to leave."""
        self._add(pod, node, max_grace_seconds(victims) + NOMINATION_SECONDS)

    def _add(self, pod: PodInfo, node: str, seconds: float) -> None:
        """Reserve the node for the pod for so long; nominations of lower priority on the node are revoked."""
        self.remove(pod.key)
        for one in self._state.fleet.nominated.get(node, ()):
            if one.priority < pod.priority:
                self._revoke(one.key)
        expiry = asyncio.get_running_loop().call_later(seconds, self._revoke, pod.key)
        self._nominations[pod.key] = Nomination(node, expiry)
        self._state.add_nominated(pod, node)

    def remove(self, name: PodName) -> None:
        nomination = self._nominations.pop(name, None)
        if nomination is not None:
            nomination.expiry_timer.cancel()
            self._state.remove_nominated(name, nomination.node)

    def _revoke(self, name: PodName) -> None:
        """Remove a nomination that expired, or that a pod of higher priority displaced."""
        self.remove(name)
        self._on_release()
        if (pod := self._find_pending(name)) is not None:
            self._write_in_background(self._status.set_nominated_node(pod, None))

    def _write_in_background(self, write: Coroutine[Any, Any, None]) -> None:
        """Write the nominated node in the background; the reservation holds even if the write fails."""

        async def run() -> None:
            with contextlib.suppress(ApiError, OSError):
                await write

        task = asyncio.get_running_loop().create_task(run())
        self._status_tasks.add(task)
        task.add_done_callback(self._status_tasks.discard)

    # replacements

    def keep(self, pod: Pod, node: str) -> None:
        """Reserve the node for the replacement of this pod, which is about to be evicted."""
        if pod.controller is None:
            return
        name = f"{pod.name}~"  # not a valid pod name: the replacement may have the name of the pod itself
        expected = build_pod_info(pod.but(metadata=pod.metadata.but(name=name), spec=pod.spec.but(node_name="")))
        self._expected_replacements[pod.controller.uid] = expected
        self._add(expected, node, max_grace_seconds([expected]) + NOMINATION_SECONDS)

    def let_go(self, pod: Pod) -> None:
        """Release the reservation: the pod is not evicted."""
        expected = self._expected_replacements.pop(pod.controller.uid, None) if pod.controller is not None else None
        if expected is not None:
            self.remove(expected.key)
            self._on_release()

    def claim(self, pod: Pod) -> None:
        """Give a new pod the node that its status names, or that is reserved for the replacement it is."""
        if pod.status.nominated_node_name:
            self._adopt(pod)
        elif pod.controller is not None and pod.controller.uid in self._expected_replacements:
            self._transfer(pod, pod.controller.uid)

    def _adopt(self, pod: Pod) -> None:
        """Adopt a nomination found on a pod, most likely written by an earlier scheduler process."""
        node, now = pod.status.nominated_node_name, self._clock.now()
        leaving = [one for one in self._cache.table(PODS).by_index(PODS_BY_NODE, node) if is_preempted(one)]
        waits = [
            min((end - now).total_seconds(), one.metadata.deletion_grace_period_seconds or 0)
            for one in leaving
            if (end := one.metadata.deletion_timestamp) is not None
        ]
        seconds = max(waits, default=0.0)
        self._add(build_pod_info(pod), node, max(0.0, seconds) + NOMINATION_SECONDS)

    def _transfer(self, pod: Pod, owner: str) -> None:
        """Transfer the reservation to the replacement, which now exists."""
        nomination = self._nominations.get(self._expected_replacements[owner].key)
        self.remove(self._expected_replacements.pop(owner).key)
        if nomination is not None:
            self._add(build_pod_info(pod), nomination.node, NOMINATION_SECONDS)
            self._write_in_background(self._status.set_nominated_node(pod, nomination.node))
