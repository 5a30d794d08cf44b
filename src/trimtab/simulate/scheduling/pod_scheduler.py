"""The pod scheduler of a simulated cluster: takes pending pods by priority, selects a node, and binds them."""

import asyncio
import contextlib
import logging
from typing import NamedTuple, cast
from uuid import uuid4

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.profile import Profile
from trimtab.clock import Clock
from trimtab.controllers.contract import RecordEvent, Ref
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot, occupies_node
from trimtab.errors import ApiError, NotFound, StorageFailed
from trimtab.plugins import node_filters, node_scores
from trimtab.registry import discover
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.server.subresources.binding import BIND_GENERATION, BINDER
from trimtab.simulate.scheduling.cluster_state import ClusterState, PodName
from trimtab.simulate.scheduling.node_selection import FirstFitSelector, HostSelector, NodeSelection, ScoringSelector
from trimtab.simulate.scheduling.nominations import Nominations
from trimtab.simulate.scheduling.pod_status_writer import PODS, PodStatusWriter
from trimtab.simulate.scheduling.preemption import Preemptor
from trimtab.simulate.scheduling.queue import RETRY_SECONDS, SchedulingQueue

EVENT_SOURCE = "default-scheduler"
SCHEDULER_NAMES = frozenset(("", "default-scheduler"))
MAX_UNSCHEDULABLE_SECONDS = 300.0
"""Unschedulable pods are retried after so long even without a change."""
BATCH_SIZE = 64
log = logging.getLogger("trimtab.pod_scheduler")


class PodDecision(NamedTuple):
    """What is decided about a pod, and on which state."""

    selection: NodeSelection
    revision: str
    """Revision of the pod cache at the decision."""


class PodScheduler:
    """Schedules the pending pods of one cluster, batch by batch."""

    def __init__(
        self,
        cache: Cache,
        *,
        clock: Clock,
        profile: Profile,
        first_fit: bool = False,
        recorder: EventRecorder | None = None,
    ) -> None:
        """`recorder` writes events about pods; without it there are none."""
        discover(node_filters)
        discover(node_scores)
        self._cache = cache
        self._client = cache.client
        self._clock = clock
        self._recorder = recorder
        self._profile = profile
        self._scheduler_id = uuid4().hex
        """Distinguishes its bindings from those of other schedulers."""
        self._queue = SchedulingQueue(self._rank_of, self._pending_pod)
        self._state = ClusterState(cache, self._queue.retry_soon)
        self._status = PodStatusWriter(cache, clock)
        self._preemptor = None if first_fit else Preemptor(cache, clock=clock, profile=profile, status=self._status)
        self._nominations = Nominations(
            cache,
            self._state,
            self._status,
            clock=clock,
            find_pending=self._pending_pod,
            on_release=lambda: self._queue.schedule_retry(RETRY_SECONDS),
        )
        self._selector: HostSelector = (
            FirstFitSelector(self._state)
            if first_fit
            else ScoringSelector(cache, self._state, self._nominations, clock)
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        types = (Node, Pod, Namespace, PersistentVolumeClaim, PriorityClass, PriorityOrder)
        types_of_preemption = self._preemptor.types_read() if self._preemptor is not None else ()
        for table in [self._cache.table_of(type_) for type_ in (*types, *types_of_preemption)]:
            await table.synced.wait()
        self._state.follow()
        self._cache.table_of(Pod).add_listener(self._on_pod_change)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._queue.close()
        self._nominations.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def fleet(self) -> NodeSnapshot:
        """The nodes and their pods, including those that are decided and not yet bound."""
        return self._state.fleet

    @property
    def is_idle(self) -> bool:
        return self._queue.is_empty and not self._state.has_assumed_pods

    def keep(self, pod: Pod, node: str) -> None:
        """Reserve the node for the replacement of this pod, which is about to be evicted."""
        self._nominations.keep(pod, node)

    def let_go(self, pod: Pod) -> None:
        """Release the reservation: the pod is not evicted."""
        self._nominations.let_go(pod)

    # watch events of pods

    def _on_pod_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        before = cast("Pod", old.typed) if old else None
        after = self._state.ranks.with_rank(cast("Pod", new.typed)) if new else None
        name = cast("CacheEntry", new or old).name
        if before is not None and after is not None and after.metadata.deletion_timestamp is not None:
            self._queue.boost_replacement(before, after)
        if after is not None and occupies_node(after):
            self._forget_pending(name)
            self._state.add_bound_pod(name, before, after)
            return
        if before is not None and occupies_node(before):
            self._state.remove_bound_pod(before)
        if after is not None and _needs_scheduling(after):
            if before is None:
                self._nominations.claim(after)
            if not self._state.is_assumed(name):
                self._queue.add(name, after)
        else:
            self._forget_pending(name)
            self._state.release(name)

    def _forget_pending(self, name: PodName) -> None:
        """Forget a pod that does not wait for a node any more."""
        self._queue.remove(name)
        self._nominations.remove(name)

    def _pending_pod(self, name: PodName) -> Pod | None:
        entry = self._cache.table_of(Pod).entries.get(name)
        pod = cast("Pod", entry.typed) if entry else None
        return pod if pod is not None and _needs_scheduling(pod) else None

    def _rank_of(self, pod: Pod) -> int:
        return self._state.ranks.rank_of(pod)

    # scheduling

    async def _run(self) -> None:
        while True:
            await self._queue.wait()
            while decisions := self._decide(BATCH_SIZE):
                await asyncio.gather(*map(self._execute, decisions))

    def _decide(self, limit: int) -> list[PodDecision]:
        decisions: list[PodDecision] = []
        revision = self._cache.table_of(Pod).observed_revision
        while len(decisions) < limit and (pod := self._queue.pop()) is not None:
            selection = self._selector.select(pod)
            if selection.node is not None:
                self._nominations.remove(selection.pod.key)  # its nomination and the assumed pod would both count
                self._state.assume(selection.pod, selection.node)
            else:
                self._queue.add_unschedulable(selection.pod.key)
            decisions.append(PodDecision(selection, revision))
        return decisions

    async def _execute(self, decision: PodDecision) -> None:
        pod, node, message, may_preempt = decision.selection
        try:
            if node is not None:
                await self._bind(pod.pod, node, decision.revision)
                return
            self._queue.schedule_retry(MAX_UNSCHEDULABLE_SECONDS)
            await self._report_unschedulable(pod.pod, message)
            if may_preempt:
                await self._preempt(pod)
        except (ApiError, OSError, TimeoutError) as fault:
            if not isinstance(fault, NotFound | StorageFailed):  # the store logs its own failures
                log.warning("cannot bind %s/%s: %s", *pod.key, fault)
            if self._state.release(pod.key):
                self._queue.add_unschedulable(pod.key)
                self._queue.schedule_retry(RETRY_SECONDS)

    async def _bind(self, pod: Pod, node: str, revision: str) -> None:
        meta = pod.metadata
        annotations = (
            {BIND_GENERATION: revision, BINDER: self._scheduler_id} if self._profile.bind_only_if_node_unchanged else {}
        )
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.submit(PODS, meta.namespace, meta.name, "binding", binding)
        self._record(pod, "Scheduled", f"Successfully assigned {meta.namespace}/{meta.name} to {node}", "Normal")

    async def _report_unschedulable(self, pod: Pod, message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await self._status.set_condition(pod, condition)
        self._record(pod, "FailedScheduling", message, "Warning")

    def _record(self, pod: Pod, reason: str, message: str, type_: str) -> None:
        if self._recorder is not None:
            meta = pod.metadata
            about = Ref("v1", "Pod", meta.namespace, meta.name, meta.uid)
            self._recorder.record(RecordEvent(about, reason, message, EVENT_SOURCE, type_), self._clock.now())

    async def _preempt(self, pod: PodInfo) -> None:
        """Evict pods of lower priority if that makes the pod fit; otherwise evict none."""
        if self._preemptor is None or self._pending_pod(pod.key) is None:
            return  # in the second case, the pod was deleted or bound since the decision
        planned = self._preemptor.plan(pod, self._state.fleet)
        if planned is None:
            return
        self._nominations.add_for_victims(pod, planned.candidate.node, planned.candidate.victims)
        try:
            await self._preemptor.execute(pod, planned)
        except (ApiError, OSError, TimeoutError) as refused:
            log.info("preemption for %s/%s is postponed: %s", *pod.key, refused)
            self._nominations.remove(pod.key)
            asked_for = (refused.retry_after or 0) if isinstance(refused, ApiError) else 0
            self._queue.schedule_retry(max(RETRY_SECONDS, asked_for))
            with contextlib.suppress(ApiError, OSError):
                await self._status.set_nominated_node(pod.pod, None)


def _needs_scheduling(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.is_terminal
        and pod.metadata.deletion_timestamp is None
        and pod.spec.scheduler_name in SCHEDULER_NAMES
        and not pod.spec.scheduling_gates
    )
