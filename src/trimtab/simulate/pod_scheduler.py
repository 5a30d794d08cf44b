"""The pod scheduler of a simulated cluster: takes pending pods by priority, selects a node, and binds them."""

import asyncio
import contextlib
import heapq
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, cast
from uuid import uuid4

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.apps import ReplicaSet, StatefulSet
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod, TopologySpreadConstraint
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.profile import Profile
from trimtab.api.value import Object
from trimtab.clock import Clock
from trimtab.decide.pods.avoid_list import AvoidEntry, entries_of, is_avoided_by
from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.node_rejection import messages_of
from trimtab.decide.pods.node_snapshot import NodeSnapshot, occupies_node
from trimtab.decide.pods.preemption.preempt import is_preempted
from trimtab.decide.pods.priority import RANKS_BY_VALUE, priority_ranks
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, node_rejections, schedule
from trimtab.errors import ApiError, NotFound, StorageFailed
from trimtab.plugins import node_filters, node_scores
from trimtab.registry import discover
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.server.subresources.binding import BIND_GENERATION, BINDER
from trimtab.simulate.pod_status_writer import PODS, PodStatusWriter
from trimtab.simulate.preemption import Preemptor, max_grace_seconds
from trimtab.simulate.workloads.owned_pods import PODS_BY_NODE

PodName = tuple[str, str]
SCHEDULER_NAMES = frozenset(("", "default-scheduler"))
RETRY_SECONDS = 1.0
"""Delay before unschedulable pods are retried, all together, after a change that may help."""
MAX_UNSCHEDULABLE_SECONDS = 300.0
"""Unschedulable pods are retried after so long even without a change."""
BATCH_SIZE = 64
NOMINATION_SECONDS = 60.0
"""Lifetime of a nomination, counted from the end of the victims' grace periods."""
BOOST_SECONDS = 600.0
"""How long the replacement of a pod that the rescheduler moved has precedence in the queue."""
RESCHEDULER_MARK = "(rescheduler)"
SPREAD_OWNERS: Mapping[str, type[Object]] = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet}
DEFAULT_SPREAD_CONSTRAINTS = (
    TopologySpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)
"""The default constraints of kube-scheduler."""
log = logging.getLogger("trimtab.pod_scheduler")


class PodScheduleResult(NamedTuple):
    """The selected node, or the message why there is none."""

    pod: PodInfo
    node: str | None
    message: str = ""
    revision: str = ""
    """Revision of the pod cache at the decision."""


class Nomination(NamedTuple):
    """A node reserved for a pod until it is bound or the time is over."""

    node: str
    expiry_timer: asyncio.TimerHandle


class PodScheduler:
    """Maintains a snapshot of the cluster incrementally, and schedules on it."""

    def __init__(self, cache: Cache, *, clock: Clock, profile: Profile, first_fit: bool = False) -> None:
        discover(node_filters)
        discover(node_scores)
        self._cache = cache
        self._client = cache.client
        self._clock = clock
        self._profile = profile
        self._first_fit = first_fit
        self._scheduler_id = uuid4().hex
        """Distinguishes its bindings from those of other schedulers."""
        self.fleet = NodeSnapshot.of(())
        self._ranks = RANKS_BY_VALUE
        self._avoid_lists: dict[str, tuple[AvoidEntry, ...]] = {}
        """Avoid-list entries of each node."""
        self._boosted_owners: dict[str, float] = {}
        """Owners whose next pod takes precedence, and until when."""
        self._boosted_pods: dict[PodName, float] = {}
        """Pods that take precedence until they are bound, and until when at most."""
        self._arrival_numbers: dict[PodName, int] = {}
        """Order of arrival: a pod that is retried keeps its position among pods of equal priority."""
        self._heap: list[tuple[bool, int, int, PodName]] = []
        self._queued: set[PodName] = set()
        self._unschedulable: set[PodName] = set()
        """Pods without a node, waiting for a change in the cluster."""
        self._assumed: dict[PodName, str] = {}
        """Nodes of pods that are decided, and not yet seen as bound."""
        self._nominations: dict[PodName, Nomination] = {}
        self._expected_replacements: dict[str, PodInfo] = {}
        """By owner: the placeholder under whose name a node is reserved for the owner's next pod."""
        self._status = PodStatusWriter(cache, clock)
        self._preemptor = Preemptor(cache, clock=clock, profile=profile, status=self._status)
        self._arrival_count = 0
        self._work_available = asyncio.Event()
        self._retry_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._status_tasks: set[asyncio.Task[None]] = set()
        """Writes of nominations that run in the background."""

    async def start(self) -> None:
        tables = [self._cache.table_of(type_) for type_ in (Node, Pod, Namespace, PriorityClass, PriorityOrder)]
        for table in (*tables, *map(self._cache.table_of, self._preemptor.types_read())):
            await table.synced.wait()
        nodes, pods, namespaces, classes, orders = tables
        classes.add_listener(self._on_priority_change)
        orders.add_listener(self._on_priority_change)
        nodes.add_listener(self._on_node_change)
        namespaces.add_listener(self._on_namespace_change)
        pods.add_listener(self._on_pod_change)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        for nomination in self._nominations.values():
            nomination.expiry_timer.cancel()
        for task in self._status_tasks:
            task.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def is_idle(self) -> bool:
        return not self._queued and not self._assumed

    # watch events

    def _on_node_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        before = cast("Node", old.typed) if old else None
        if new is None:
            self.fleet = self.fleet.without_node(cast("CacheEntry", old).name[1])
            self._avoid_lists.pop(cast("CacheEntry", old).name[1], None)
            return
        node = cast("Node", new.typed)
        self._avoid_lists[node.name] = entries_of(node.metadata.annotations)
        if before is None or (before.spec, before.metadata.labels, before.status.allocatable) != (
            node.spec,
            node.metadata.labels,
            node.status.allocatable,
        ):
            self.fleet = self.fleet.with_node(node)
            self._retry_soon()

    def _on_namespace_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        name = (new or cast("CacheEntry", old)).name[1]
        labels = {key: value for key, value in self.fleet.namespaces.items() if key != name}
        if new is not None:
            labels[name] = cast("Namespace", new.typed).metadata.labels
        if labels != self.fleet.namespaces:
            self.fleet = self.fleet.with_namespaces(labels)

    def _on_priority_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Rank all pods again, because the priority order changed."""
        order = self._cache.table_of(PriorityOrder).entries.get(("", "default"))
        classes = [cast("PriorityClass", entry.typed) for entry in self._cache.table_of(PriorityClass).entries.values()]
        ranks_now = priority_ranks(classes, cast("PriorityOrder", order.typed) if order else None)
        if ranks_now == self._ranks:
            return
        self._ranks = ranks_now
        for entry in self._cache.table(PODS).entries.values():
            pod = cast("Pod", entry.typed)
            if occupies_node(pod):
                self.fleet = self.fleet.with_pod(ranks_now.with_rank(pod))

    def _on_pod_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        before = cast("Pod", old.typed) if old else None
        after = self._ranks.with_rank(cast("Pod", new.typed)) if new else None
        if before is not None and after is not None and after.metadata.deletion_timestamp is not None:
            self._boost_replacement(before, after)
        if after is not None and occupies_node(after):
            self._add_bound_pod(before, after, cast("CacheEntry", new).name)
            return
        if before is not None and occupies_node(before):
            self.fleet = self.fleet.without_pod(before)
            self._retry_soon()
        name = cast("CacheEntry", new or old).name
        if after is not None and _needs_scheduling(after):
            if before is None and after.status.nominated_node_name:
                self._adopt_nomination(after)
            elif (
                before is None and after.controller is not None and after.controller.uid in self._expected_replacements
            ):
                self._transfer_nomination(after, after.controller.uid)
            self._enqueue(name, after)
        else:
            self._remove_pod(name)

    def _boost_replacement(self, before: Pod, after: Pod) -> None:
        """Give precedence to the replacement of a pod that the rescheduler evicted."""
        moved = any(
            one.type == "DisruptionTarget" and RESCHEDULER_MARK in one.message for one in after.status.conditions
        )
        if moved and before.metadata.deletion_timestamp is None and after.controller is not None:
            self._boosted_owners[after.controller.uid] = asyncio.get_running_loop().time() + BOOST_SECONDS

    def _claim_boost(self, name: PodName, pod: Pod) -> bool:
        if pod.controller is not None and (until := self._boosted_owners.pop(pod.controller.uid, None)) is not None:
            self._boosted_pods[name] = until
        return self._boosted_pods.get(name, 0.0) > asyncio.get_running_loop().time()

    def _add_bound_pod(self, before: Pod | None, after: Pod, name: PodName) -> None:
        was_assumed = self._assumed.pop(name, None) == after.spec.node_name
        self._remove_from_queue(name)
        was_bound = before is not None and occupies_node(before)
        if was_assumed and not was_bound:
            return  # it was added when it was assumed
        if before is None or not was_bound or _scheduling_facts(before) != _scheduling_facts(after):
            self.fleet = self.fleet.with_pod(after)

    def _remove_pod(self, name: PodName) -> None:
        """Remove a pod that needs no node any more, and free what was assumed for it."""
        self._remove_from_queue(name)
        if (node := self._assumed.pop(name, None)) is not None:
            self._release_assumed(name, node)

    def _remove_from_queue(self, name: PodName) -> None:
        self._queued.discard(name)
        self._unschedulable.discard(name)
        self._boosted_pods.pop(name, None)
        self._arrival_numbers.pop(name, None)
        self._remove_nomination(name)

    def _release_assumed(self, name: PodName, node: str) -> None:
        here = self.fleet.get(node)
        removed = [one for one in here.pods if one.key == name] if here else []
        if removed:
            self.fleet = self.fleet.without_pods(removed, node)
            self._retry_soon()

    def _enqueue(self, name: PodName, pod: Pod) -> None:
        if name in self._queued or name in self._unschedulable or name in self._assumed:
            return
        self._queued.add(name)
        if name not in self._arrival_numbers:
            self._arrival_count += 1
            self._arrival_numbers[name] = self._arrival_count
        not_boosted = not self._claim_boost(name, pod)
        heapq.heappush(self._heap, (not_boosted, -self._ranks.rank_of(pod), self._arrival_numbers[name], name))
        self._work_available.set()

    def _retry_soon(self) -> None:
        """Retry unschedulable pods soon, because something changed that may help."""
        if self._unschedulable:
            self._schedule_retry(RETRY_SECONDS)

    def _schedule_retry(self, seconds: float) -> None:
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
            if (pod := self._pending_pod(name)) is not None:
                self._enqueue(name, pod)

    # scheduling

    def _pending_pod(self, name: PodName) -> Pod | None:
        entry = self._cache.table(PODS).entries.get(name)
        pod = cast("Pod", entry.typed) if entry else None
        return pod if pod is not None and _needs_scheduling(pod) else None

    async def _run(self) -> None:
        while True:
            await self._work_available.wait()
            self._work_available.clear()
            while results := self._decide(BATCH_SIZE):
                await asyncio.gather(*map(self._execute, results))

    def _decide(self, limit: int) -> list[PodScheduleResult]:
        results: list[PodScheduleResult] = []
        while self._heap and len(results) < limit:
            *_, name = heapq.heappop(self._heap)
            if name not in self._queued:
                continue
            self._queued.discard(name)
            if (pod := self._pending_pod(name)) is None:
                continue
            result = self._select_node(build_pod_info(self._ranks.with_rank(self._with_default_spread(pod))))
            if result.node is not None:
                self._assumed[name] = result.node
                self._remove_nomination(name)  # its nomination and the assumed pod would both count
                self.fleet = self.fleet.with_pod_on(result.pod, result.node)
            else:
                self._unschedulable.add(name)
            revision = self._cache.table(PODS).observed_revision
            results.append(PodScheduleResult(result.pod, result.node, result.message, revision))
        return results

    def _with_default_spread(self, pod: Pod) -> Pod:
        """Apply the default spread constraints to pods of a set that have none."""
        owner, type_ = pod.controller, SPREAD_OWNERS.get(pod.controller.kind) if pod.controller else None
        if owner is None or type_ is None or pod.spec.topology_spread_constraints or self._first_fit:
            return pod
        entry = self._cache.table_of(type_).entries.get((pod.namespace, owner.name))
        selector = cast("ReplicaSet | StatefulSet", entry.typed).spec.selector if entry else None
        spread = tuple(constraint.but(label_selector=selector) for constraint in DEFAULT_SPREAD_CONSTRAINTS)
        return pod.but(spec=pod.spec.but(topology_spread_constraints=spread)) if selector else pod

    def _select_node(self, pod: PodInfo) -> PodScheduleResult:
        if self._first_fit:
            node = first_fit(pod, self.fleet)
            return PodScheduleResult(pod, node, "" if node else f"0/{len(self.fleet)} nodes are available.")
        avoided = self._nodes_avoiding(pod.pod)
        if (nominated := self._nominated_node(pod)) is not None and nominated not in avoided:
            return PodScheduleResult(pod, nominated)
        decision = schedule(pod, self.fleet, avoided=avoided)
        if decision.node is None:
            return PodScheduleResult(pod, None, unschedulable_message(pod, self.fleet))
        return PodScheduleResult(pod, decision.node)

    def _nominated_node(self, pod: PodInfo) -> str | None:
        """The node nominated for the pod, if the pod fits there now."""
        nomination = self._nominations.get(pod.key)
        column = self.fleet.nodes.index.get(nomination.node) if nomination is not None else None
        if nomination is None or column is None:
            return None
        ((_, objection),) = node_rejections(
            pod_request_for(pod, self.fleet), self.fleet, [column], DEFAULT_SCHEDULER_PROFILE
        )
        return nomination.node if objection is None else None

    def _nodes_avoiding(self, pod: Pod) -> list[str]:
        """Nodes whose avoid list names an owner of this pod."""
        owner = pod.controller
        if owner is None or not any(self._avoid_lists.values()):
            return []
        owners = {owner.uid}
        if (above := self._cache.table_of(ReplicaSet).entries.get((pod.namespace, owner.name))) is not None:
            owners.update(one.uid for one in above.typed.metadata.owner_references if one.controller)
        now = self._clock.now()
        return [node for node, entries in self._avoid_lists.items() if is_avoided_by(entries, owners, now)]

    async def _execute(self, result: PodScheduleResult) -> None:
        name = result.pod.key
        try:
            if result.node is not None:
                await self._bind(result.pod.pod, result.node, result.revision)
                return
            self._schedule_retry(MAX_UNSCHEDULABLE_SECONDS)
            await self._report_unschedulable(result)
            if not self._first_fit:
                await self._preempt(result.pod)
        except (ApiError, OSError, TimeoutError) as fault:
            if not isinstance(fault, NotFound | StorageFailed):  # the store logs its own failures
                log.warning("cannot bind %s/%s: %s", *name, fault)
            if (node := self._assumed.pop(name, None)) is not None:
                self._release_assumed(name, node)
                self._unschedulable.add(name)
                self._schedule_retry(RETRY_SECONDS)

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

    async def _report_unschedulable(self, result: PodScheduleResult) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": result.message,
        }
        await self._status.set_condition(result.pod.pod, condition)

    # preemption

    async def _preempt(self, pod: PodInfo) -> None:
        """Evict pods of lower priority if that makes the pod fit; otherwise evict none."""
        if self._pending_pod(pod.key) is None:
            return  # the pod was deleted or bound since the decision
        planned = self._preemptor.plan(pod, self.fleet)
        if planned is None:
            return
        node, victims = planned.candidate.node, planned.candidate.victims
        self._nominate(pod, node, max_grace_seconds(victims) + NOMINATION_SECONDS)
        try:
            await self._preemptor.execute(pod, planned)
        except (ApiError, OSError, TimeoutError) as refused:
            log.info("preemption for %s/%s is postponed: %s", *pod.key, refused)
            self._remove_nomination(pod.key)
            self._schedule_retry(max(RETRY_SECONDS, getattr(refused, "retry_after", None) or 0))
            with contextlib.suppress(ApiError, OSError):
                await self._status.set_nominated_node(pod.pod, None)

    def _revoke_nomination(self, name: PodName) -> None:
        """Remove a nomination that expired, or that a pod of higher priority displaced."""
        self._remove_nomination(name)
        self._schedule_retry(RETRY_SECONDS)
        if (pod := self._pending_pod(name)) is not None:
            self._write_in_background(self._status.set_nominated_node(pod, None))

    def _write_in_background(self, write: Coroutine[Any, Any, None]) -> None:
        """Write the nominated node in the background; the reservation holds even if the write fails."""

        async def run() -> None:
            with contextlib.suppress(ApiError, OSError):
                await write

        task = asyncio.get_running_loop().create_task(run())
        self._status_tasks.add(task)
        task.add_done_callback(self._status_tasks.discard)

    def _adopt_nomination(self, pod: Pod) -> None:
        """Adopt a nomination found on a pod, most likely written by an earlier scheduler process."""
        node, now = pod.status.nominated_node_name, self._clock.now()
        leaving = [one for one in self._cache.table(PODS).by_index(PODS_BY_NODE, node) if is_preempted(one)]
        waits = [
            min((end - now).total_seconds(), one.metadata.deletion_grace_period_seconds or 0)
            for one in leaving
            if (end := one.metadata.deletion_timestamp) is not None
        ]
        seconds = max(waits, default=0.0)
        self._nominate(build_pod_info(pod), node, max(0.0, seconds) + NOMINATION_SECONDS)

    def keep(self, pod: Pod, node: str) -> None:
        """Reserve the node for the replacement of this pod, which is about to be evicted."""
        if pod.controller is None:
            return
        name = f"{pod.name}~"  # not a valid pod name: the replacement may have the name of the pod itself
        expected = build_pod_info(pod.but(metadata=pod.metadata.but(name=name), spec=pod.spec.but(node_name="")))
        self._expected_replacements[pod.controller.uid] = expected
        self._nominate(expected, node, max_grace_seconds([expected]) + NOMINATION_SECONDS)

    def let_go(self, pod: Pod) -> None:
        """Release the reservation: the pod is not evicted."""
        expected = self._expected_replacements.pop(pod.controller.uid, None) if pod.controller is not None else None
        if expected is not None:
            self._remove_nomination(expected.key)
            self._schedule_retry(RETRY_SECONDS)

    def _transfer_nomination(self, pod: Pod, owner: str) -> None:
        """Transfer the reservation to the replacement, which now exists."""
        nomination = self._nominations.get(self._expected_replacements[owner].key)
        self._remove_nomination(self._expected_replacements.pop(owner).key)
        if nomination is not None:
            self._nominate(build_pod_info(pod), nomination.node, NOMINATION_SECONDS)
            self._write_in_background(self._status.set_nominated_node(pod, nomination.node))

    def _nominate(self, pod: PodInfo, node: str, seconds: float) -> None:
        """Reserve the node for the pod for so long; nominations of lower priority on the node are revoked."""
        self._remove_nomination(pod.key)
        for one in self.fleet.nominated.get(node, ()):
            if one.priority < pod.priority:
                self._revoke_nomination(one.key)
        expiry = asyncio.get_running_loop().call_later(seconds, self._revoke_nomination, pod.key)
        self._nominations[pod.key] = Nomination(node, expiry)
        nominated = (*self.fleet.nominated.get(node, ()), pod)
        self.fleet = self.fleet.with_nominated({**self.fleet.nominated, node: nominated})

    def _remove_nomination(self, name: PodName) -> None:
        nomination = self._nominations.pop(name, None)
        if nomination is None:
            return
        nomination.expiry_timer.cancel()
        nominated = tuple(one for one in self.fleet.nominated.get(nomination.node, ()) if one.key != name)
        others = {key: value for key, value in self.fleet.nominated.items() if key != nomination.node}
        self.fleet = self.fleet.with_nominated(others | ({nomination.node: nominated} if nominated else {}))


def _needs_scheduling(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.is_terminal
        and pod.metadata.deletion_timestamp is None
        and pod.spec.scheduler_name in SCHEDULER_NAMES
        and not pod.spec.scheduling_gates
    )


def _scheduling_facts(pod: Pod) -> tuple[object, ...]:
    """The fields of a bound pod that affect other pods and preemption."""
    return (
        pod.metadata.labels,
        pod.metadata.deletion_timestamp,
        pod.spec,
        pod.status.start_time,
    )


def first_fit(pod: PodInfo, fleet: NodeSnapshot) -> str | None:
    """The first node by name with enough free capacity, without any other filter."""
    for name in sorted(fleet.nodes.names):
        here = fleet.get(name)
        if here is None or here.node.spec.unschedulable or here.free_pods < 1:
            continue
        if all(here.free_amount(resource) >= amount for resource, amount in pod.resources.requests.items()):
            return name
    return None


def unschedulable_message(pod: PodInfo, fleet: NodeSnapshot) -> str:
    """The message of kube-scheduler for a pod that fits on no node."""
    total = len(fleet)
    if not total:
        return "no nodes available to schedule pods"
    reasons: Counter[str] = Counter()
    for _, objection in node_rejections(pod_request_for(pod, fleet), fleet, range(total), DEFAULT_SCHEDULER_PROFILE):
        if objection is not None:
            reasons.update(messages_of(objection.reason))
    counted = ", ".join(sorted(f"{count} {message}" for message, count in reasons.items()))
    return f"0/{total} nodes are available: {counted}."
