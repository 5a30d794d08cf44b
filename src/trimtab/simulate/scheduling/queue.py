"""The queue of pending pods: by precedence, priority and arrival; pods that fit nowhere wait aside and are retried."""

import asyncio
import heapq
from collections.abc import Callable

from trimtab.api.kinds.native.pod import Pod
from trimtab.simulate.scheduling.cluster_state import PodName

RETRY_SECONDS = 1.0
"""Delay before unschedulable pods are retried, all together, after a change that may help."""
BOOST_SECONDS = 600.0
"""How long the replacement of a pod that the rescheduler moved has precedence in the queue."""
RESCHEDULER_MARK = "(rescheduler)"


class SchedulingQueue:
    """Pods that wait for a decision, and pods that wait for a change in the cluster."""

    def __init__(self, rank_of: Callable[[Pod], int], find_pending: Callable[[PodName], Pod | None]) -> None:
        self._rank_of = rank_of
        self._find_pending = find_pending
        """The pod, if it still needs a node."""
        self._heap: list[tuple[bool, int, int, PodName]] = []
        self._queued: set[PodName] = set()
        self._unschedulable: set[PodName] = set()
        """Pods without a node, waiting for a change in the cluster."""
        self._arrival_numbers: dict[PodName, int] = {}
        """Order of arrival: a pod that is retried keeps its position among pods of equal priority."""
        self._arrival_count = 0
        self._boosts = ReplacementBoosts()
        self._work_available = asyncio.Event()
        self._retry_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._retry_timer is not None:
            self._retry_timer.cancel()

    @property
    def is_empty(self) -> bool:
        return not self._queued

    async def wait(self) -> None:
        """Wait until pods are queued."""
        await self._work_available.wait()
        self._work_available.clear()

    def add(self, name: PodName, pod: Pod) -> None:
        if name in self._queued or name in self._unschedulable:
            return
        self._queued.add(name)
        if name not in self._arrival_numbers:
            self._arrival_count += 1
            self._arrival_numbers[name] = self._arrival_count
        not_boosted = not self._boosts.claim(name, pod)
        heapq.heappush(self._heap, (not_boosted, -self._rank_of(pod), self._arrival_numbers[name], name))
        self._work_available.set()

    def pop(self) -> Pod | None:
        """The next pod that still needs a node."""
        while self._heap:
            *_, name = heapq.heappop(self._heap)
            if name not in self._queued:
                continue
            self._queued.discard(name)
            if (pod := self._find_pending(name)) is not None:
                return pod
        return None

    def remove(self, name: PodName) -> None:
        self._queued.discard(name)
        self._unschedulable.discard(name)
        self._boosts.forget(name)
        self._arrival_numbers.pop(name, None)

    def boost_replacement(self, before: Pod, after: Pod) -> None:
        """Give precedence to the replacement of a pod whose deletion began now, if the rescheduler evicted it."""
        self._boosts.note_deletion(before, after)

    # retries

    def add_unschedulable(self, name: PodName) -> None:
        self._unschedulable.add(name)

    def retry_soon(self) -> None:
        """Retry unschedulable pods soon, because something changed that may help."""
        if self._unschedulable:
            self.schedule_retry(RETRY_SECONDS)

    def schedule_retry(self, seconds: float) -> None:
        """Retry unschedulable pods after so many seconds, or before if a retry is due earlier."""
        loop = asyncio.get_running_loop()
        if self._retry_timer is not None and not self._retry_timer.cancelled():
            if self._retry_timer.when() <= loop.time() + seconds:
                return
            self._retry_timer.cancel()
        self._retry_timer = loop.call_later(seconds, self._requeue_unschedulable)

    def _requeue_unschedulable(self) -> None:
        self._retry_timer = None
        stuck, self._unschedulable = sorted(self._unschedulable), set()
        for name in stuck:
            if (pod := self._find_pending(name)) is not None:
                self.add(name, pod)


class ReplacementBoosts:
    """Precedence in the queue for the replacements of pods that the rescheduler evicted."""

    def __init__(self) -> None:
        self._owners: dict[str, float] = {}
        """Owners whose next pod takes precedence, and until when."""
        self._pods: dict[PodName, float] = {}
        """Pods that take precedence until they are bound, and until when at most."""

    def note_deletion(self, before: Pod, after: Pod) -> None:
        moved = any(
            one.type == "DisruptionTarget" and RESCHEDULER_MARK in one.message for one in after.status.conditions
        )
        if moved and before.metadata.deletion_timestamp is None and after.controller is not None:
            self._owners[after.controller.uid] = asyncio.get_running_loop().time() + BOOST_SECONDS

    def claim(self, name: PodName, pod: Pod) -> bool:
        """Whether this pod has precedence now; the first pod of an owner takes the boost of the owner."""
        if pod.controller is not None and (until := self._owners.pop(pod.controller.uid, None)) is not None:
            self._pods[name] = until
        return self._pods.get(name, 0.0) > asyncio.get_running_loop().time()

    def forget(self, name: PodName) -> None:
        self._pods.pop(name, None)
