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
from trimtab.errors import ApiFault, NotFound
from trimtab.plugins import node_filters, node_scores
from trimtab.registry import discover
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.server.subresources.binding import BIND_GENERATION as BIND_GENERATION
from trimtab.server.subresources.binding import BINDER
from trimtab.simulate.pod_status_writer import PODS, PodStatusWriter
from trimtab.simulate.preemption import Preemptor, max_grace_seconds
from trimtab.simulate.workloads.owned_pods import PODS_ON

Name = tuple[str, str]
OURS = frozenset(("", "default-scheduler"))
RETRY_SECONDS = 1.0
"""Delay before unschedulable pods are retried, all together, after a change that may help."""
PATIENCE_SECONDS = 300.0
"""Unschedulable pods are retried after so long even without a change."""
AT_ONCE = 64
PROMISE_SECONDS = 60.0
"""Lifetime of a nomination, counted from the end of the victims' grace periods."""
BOOST_SECONDS = 600.0
"""How long the replacement of a pod that the rescheduler moved has precedence in the queue."""
RESCHEDULED = "(rescheduler)"
SETS: Mapping[str, type[Object]] = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet}
USUAL_SPREAD = (
    TopologySpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)
"""The default constraints of kube-scheduler."""
log = logging.getLogger("trimtab.pod_scheduler")


class Verdict(NamedTuple):
    """The selected node, or the message why there is none."""

    pod: PodInfo
    node: str | None
    message: str = ""
    seen: str = ""
    """Revision of the pod cache at the decision."""


class Promise(NamedTuple):
    """A node reserved for a pod until it is bound or the time is over."""

    node: str
    over: asyncio.TimerHandle


class Binder:
    """Maintains a snapshot of the cluster incrementally, and schedules on it."""

    def __init__(self, cache: Cache, *, clock: Clock, profile: Profile, first_fit: bool = False) -> None:
        discover(node_filters)
        discover(node_scores)
        self._cache = cache
        self._client = cache.client
        self._clock = clock
        self._profile = profile
        self._first_fit = first_fit
        self._name = uuid4().hex
        """Distinguishes its bindings from those of other schedulers."""
        self.fleet = NodeSnapshot.of(())
        self._ranks = RANKS_BY_VALUE
        self._avoid: dict[str, tuple[AvoidEntry, ...]] = {}
        """Avoid-list entries of each node."""
        self._boosts: dict[str, float] = {}
        """Owners whose next pod takes precedence, and until when."""
        self._favoured: dict[Name, float] = {}
        """Pods that take precedence until they are bound, and until when at most."""
        self._arrivals: dict[Name, int] = {}
        """Order of arrival: a pod that is retried keeps its position among pods of equal priority."""
        self._heap: list[tuple[bool, int, int, Name]] = []
        self._waiting: set[Name] = set()
        self._stuck: set[Name] = set()
        """Pods without a node, waiting for a change in the cluster."""
        self._assumed: dict[Name, str] = {}
        """Nodes of pods that are decided, and not yet seen as bound."""
        self._promised: dict[Name, Promise] = {}
        self._expected: dict[str, PodInfo] = {}
        """By owner: the placeholder under whose name a node is reserved for the owner's next pod."""
        self._status = PodStatusWriter(cache, clock)
        self._preemptor = Preemptor(cache, clock=clock, profile=profile, status=self._status)
        self._count = 0
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        """Writes of nominations that run in the background."""

    async def start(self) -> None:
        tables = [self._cache.table_of(type_) for type_ in (Node, Pod, Namespace, PriorityClass, PriorityOrder)]
        for table in (*tables, *map(self._cache.table_of, self._preemptor.types_read())):
            await table.synced.wait()
        nodes, pods, namespaces, classes, orders = tables
        classes.add_listener(self._order_changed)
        orders.add_listener(self._order_changed)
        nodes.add_listener(self._node_changed)
        namespaces.add_listener(self._namespace_changed)
        pods.add_listener(self._pod_changed)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        for nomination in self._promised.values():
            nomination.over.cancel()
        for task in self._telling:
            task.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._assumed

    # watch events

    def _node_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        before = cast("Node", old.typed) if old else None
        if new is None:
            self.fleet = self.fleet.without_node(cast("CacheEntry", old).name[1])
            self._avoid.pop(cast("CacheEntry", old).name[1], None)
            return
        node = cast("Node", new.typed)
        self._avoid[node.name] = entries_of(node.metadata.annotations)
        if before is None or (before.spec, before.metadata.labels, before.status.allocatable) != (
            node.spec,
            node.metadata.labels,
            node.status.allocatable,
        ):
            self.fleet = self.fleet.with_node(node)
            self._stir()

    def _namespace_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        name = (new or cast("CacheEntry", old)).name[1]
        labels = {key: value for key, value in self.fleet.namespaces.items() if key != name}
        if new is not None:
            labels[name] = cast("Namespace", new.typed).metadata.labels
        if labels != self.fleet.namespaces:
            self.fleet = self.fleet.with_namespaces(labels)

    def _order_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
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

    def _pod_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        before = cast("Pod", old.typed) if old else None
        after = self._ranks.with_rank(cast("Pod", new.typed)) if new else None
        if before is not None and after is not None and after.metadata.deletion_timestamp is not None:
            self._boost(before, after)
        if after is not None and occupies_node(after):
            self._bound(before, after, cast("CacheEntry", new).name)
            return
        if before is not None and occupies_node(before):
            self.fleet = self.fleet.without_pod(before)
            self._stir()
        name = cast("CacheEntry", new or old).name
        if after is not None and _wants_a_node(after):
            if before is None and after.status.nominated_node_name:
                self._take_over(after)
            elif before is None and after.controller is not None and after.controller.uid in self._expected:
                self._hand_over(after, after.controller.uid)
            self._queue(name, after)
        else:
            self._forget(name)

    def _boost(self, before: Pod, after: Pod) -> None:
        """Give precedence to the replacement of a pod that the rescheduler evicted."""
        moved = any(one.type == "DisruptionTarget" and RESCHEDULED in one.message for one in after.status.conditions)
        if moved and before.metadata.deletion_timestamp is None and after.controller is not None:
            self._boosts[after.controller.uid] = asyncio.get_running_loop().time() + BOOST_SECONDS

    def _is_boosted(self, name: Name, pod: Pod) -> bool:
        if pod.controller is not None and (until := self._boosts.pop(pod.controller.uid, None)) is not None:
            self._favoured[name] = until
        return self._favoured.get(name, 0.0) > asyncio.get_running_loop().time()

    def _bound(self, before: Pod | None, after: Pod, name: Name) -> None:
        was_assumed = self._assumed.pop(name, None) == after.spec.node_name
        self._leave_queue(name)
        was_bound = before is not None and occupies_node(before)
        if was_assumed and not was_bound:
            return  # it was added when it was assumed
        if before is None or not was_bound or _facts(before) != _facts(after):
            self.fleet = self.fleet.with_pod(after)

    def _forget(self, name: Name) -> None:
        """Remove a pod that needs no node any more, and free what was assumed for it."""
        self._leave_queue(name)
        if (node := self._assumed.pop(name, None)) is not None:
            self._unbook(name, node)

    def _leave_queue(self, name: Name) -> None:
        self._waiting.discard(name)
        self._stuck.discard(name)
        self._favoured.pop(name, None)
        self._arrivals.pop(name, None)
        self._withdraw(name)

    def _unbook(self, name: Name, node: str) -> None:
        here = self.fleet.get(node)
        removed = [one for one in here.pods if one.key == name] if here else []
        if removed:
            self.fleet = self.fleet.without_pods(removed, node)
            self._stir()

    def _queue(self, name: Name, pod: Pod) -> None:
        if name in self._waiting or name in self._stuck or name in self._assumed:
            return
        self._waiting.add(name)
        if name not in self._arrivals:
            self._count += 1
            self._arrivals[name] = self._count
        not_boosted = not self._is_boosted(name, pod)
        heapq.heappush(self._heap, (not_boosted, -self._ranks.rank_of(pod), self._arrivals[name], name))
        self._wake.set()

    def _stir(self) -> None:
        """Retry unschedulable pods soon, because something changed that may help."""
        if self._stuck:
            self._ring_in(RETRY_SECONDS)

    def _ring_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._alarm is not None and not self._alarm.cancelled():
            if self._alarm.when() <= loop.time() + seconds:
                return
            self._alarm.cancel()
        self._alarm = loop.call_later(seconds, self._retry)

    def _retry(self) -> None:
        self._alarm = None
        stuck, self._stuck = sorted(self._stuck), set()
        for name in stuck:
            if (pod := self._pod(name)) is not None:
                self._queue(name, pod)

    # scheduling

    def _pod(self, name: Name) -> Pod | None:
        entry = self._cache.table(PODS).entries.get(name)
        pod = cast("Pod", entry.typed) if entry else None
        return pod if pod is not None and _wants_a_node(pod) else None

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while results := self._decide(AT_ONCE):
                await asyncio.gather(*map(self._carry_out, results))

    def _decide(self, most: int) -> list[Verdict]:
        results: list[Verdict] = []
        while self._heap and len(results) < most:
            *_, name = heapq.heappop(self._heap)
            if name not in self._waiting:
                continue
            self._waiting.discard(name)
            if (pod := self._pod(name)) is None:
                continue
            result = self._choose(build_pod_info(self._ranks.with_rank(self._with_usual_spread(pod))))
            if result.node is not None:
                self._assumed[name] = result.node
                self._withdraw(name)  # its nomination and the assumed pod would both count
                self.fleet = self.fleet.with_pod_on(result.pod, result.node)
            else:
                self._stuck.add(name)
            revision = self._cache.table(PODS).observed_revision
            results.append(Verdict(result.pod, result.node, result.message, revision))
        return results

    def _with_usual_spread(self, pod: Pod) -> Pod:
        """Apply the default spread constraints to pods of a set that have none."""
        owner, type_ = pod.controller, SETS.get(pod.controller.kind) if pod.controller else None
        if owner is None or type_ is None or pod.spec.topology_spread_constraints or self._first_fit:
            return pod
        entry = self._cache.table_of(type_).entries.get((pod.namespace, owner.name))
        selector = cast("ReplicaSet | StatefulSet", entry.typed).spec.selector if entry else None
        spread = tuple(constraint.but(label_selector=selector) for constraint in USUAL_SPREAD)
        return pod.but(spec=pod.spec.but(topology_spread_constraints=spread)) if selector else pod

    def _choose(self, pod: PodInfo) -> Verdict:
        if self._first_fit:
            node = first_fit(pod, self.fleet)
            return Verdict(pod, node, "" if node else f"0/{len(self.fleet)} nodes are available.")
        avoided = self._avoided_by(pod.pod)
        if (nominated := self._kept(pod)) is not None and nominated not in avoided:
            return Verdict(pod, nominated)
        decision = schedule(pod, self.fleet, avoided=avoided)
        if decision.node is None:
            return Verdict(pod, None, why_nowhere(pod, self.fleet))
        return Verdict(pod, decision.node)

    def _kept(self, pod: PodInfo) -> str | None:
        """The node nominated for the pod, if the pod fits there now."""
        nomination = self._promised.get(pod.key)
        column = self.fleet.nodes.index.get(nomination.node) if nomination is not None else None
        if nomination is None or column is None:
            return None
        ((_, objection),) = node_rejections(
            pod_request_for(pod, self.fleet), self.fleet, [column], DEFAULT_SCHEDULER_PROFILE
        )
        return nomination.node if objection is None else None

    def _avoided_by(self, pod: Pod) -> list[str]:
        """Nodes whose avoid list names an owner of this pod."""
        owner = pod.controller
        if owner is None or not any(self._avoid.values()):
            return []
        owners = {owner.uid}
        if (above := self._cache.table_of(ReplicaSet).entries.get((pod.namespace, owner.name))) is not None:
            owners.update(one.uid for one in above.typed.metadata.owner_references if one.controller)
        now = self._clock.now()
        return [node for node, entries in self._avoid.items() if is_avoided_by(entries, owners, now)]

    async def _carry_out(self, result: Verdict) -> None:
        name = result.pod.key
        try:
            if result.node is not None:
                await self._bind(result.pod.pod, result.node, result.seen)
                return
            self._ring_in(PATIENCE_SECONDS)
            await self._explain(result)
            if not self._first_fit:
                await self._make_room(result.pod)
        except (ApiFault, OSError, TimeoutError) as fault:
            if not isinstance(fault, NotFound):
                log.warning("cannot bind %s/%s: %s", *name, fault)
            if (node := self._assumed.pop(name, None)) is not None:
                self._unbook(name, node)
                self._stuck.add(name)
                self._ring_in(RETRY_SECONDS)

    async def _bind(self, pod: Pod, node: str, seen: str) -> None:
        meta = pod.metadata
        annotations = {BIND_GENERATION: seen, BINDER: self._name} if self._profile.bind_only_if_node_unchanged else {}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.submit(PODS, meta.namespace, meta.name, "binding", binding)

    async def _explain(self, result: Verdict) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": result.message,
        }
        await self._status.set_condition(result.pod.pod, condition)

    # preemption

    async def _make_room(self, pod: PodInfo) -> None:
        """Evict pods of lower priority if that makes the pod fit; otherwise evict none."""
        if self._pod(pod.key) is None:
            return  # the pod was deleted or bound since the decision
        planned = self._preemptor.plan(pod, self.fleet)
        if planned is None:
            return
        node, victims = planned.candidate.node, planned.candidate.victims
        self._nominate(pod, node, max_grace_seconds(victims) + PROMISE_SECONDS)
        try:
            await self._preemptor.execute(pod, planned)
        except (ApiFault, OSError, TimeoutError) as refused:
            log.info("preemption for %s/%s is postponed: %s", *pod.key, refused)
            self._withdraw(pod.key)
            self._ring_in(max(RETRY_SECONDS, getattr(refused, "retry_after", None) or 0))
            with contextlib.suppress(ApiFault, OSError):
                await self._status.set_nominated_node(pod.pod, None)

    def _break_promise(self, name: Name) -> None:
        """Remove a nomination that expired, or that a pod of higher priority displaced."""
        self._withdraw(name)
        self._ring_in(RETRY_SECONDS)
        if (pod := self._pod(name)) is not None:
            self._say(self._status.set_nominated_node(pod, None))

    def _say(self, write: Coroutine[Any, Any, None]) -> None:
        """Write the nominated node in the background; the reservation holds even if the write fails."""

        async def run() -> None:
            with contextlib.suppress(ApiFault, OSError):
                await write

        task = asyncio.get_running_loop().create_task(run())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _take_over(self, pod: Pod) -> None:
        """Adopt a nomination found on a pod, most likely written by an earlier scheduler process."""
        node, now = pod.status.nominated_node_name, self._clock.now()
        leaving = [one for one in self._cache.table(PODS).by_index(PODS_ON, node) if is_preempted(one)]
        ends = [one.metadata.deletion_timestamp for one in leaving if one.metadata.deletion_timestamp is not None]
        seconds = max(((end - now).total_seconds() for end in ends), default=0.0)
        self._nominate(build_pod_info(pod), node, max(0.0, seconds) + PROMISE_SECONDS)

    def keep(self, pod: Pod, node: str) -> None:
        """Reserve the node for the replacement of this pod, which is about to be evicted."""
        if pod.controller is None:
            return
        name = f"{pod.name}~"  # not a valid pod name: the replacement may have the name of the pod itself
        expected = build_pod_info(pod.but(metadata=pod.metadata.but(name=name), spec=pod.spec.but(node_name="")))
        self._expected[pod.controller.uid] = expected
        self._nominate(expected, node, max_grace_seconds([expected]) + PROMISE_SECONDS)

    def let_go(self, pod: Pod) -> None:
        """Release the reservation: the pod is not evicted."""
        expected = self._expected.pop(pod.controller.uid, None) if pod.controller is not None else None
        if expected is not None:
            self._withdraw(expected.key)
            self._ring_in(RETRY_SECONDS)

    def _hand_over(self, pod: Pod, owner: str) -> None:
        """Transfer the reservation to the replacement, which now exists."""
        nomination = self._promised.get(self._expected[owner].key)
        self._withdraw(self._expected.pop(owner).key)
        if nomination is not None:
            self._nominate(build_pod_info(pod), nomination.node, PROMISE_SECONDS)
            self._say(self._status.set_nominated_node(pod, nomination.node))

    def _nominate(self, pod: PodInfo, node: str, seconds: float) -> None:
        """Reserve the node for the pod for so long; nominations of lower priority on the node are revoked."""
        self._withdraw(pod.key)
        for one in self.fleet.nominated.get(node, ()):
            if one.priority < pod.priority:
                self._break_promise(one.key)
        expiry = asyncio.get_running_loop().call_later(seconds, self._break_promise, pod.key)
        self._promised[pod.key] = Promise(node, expiry)
        nominated = (*self.fleet.nominated.get(node, ()), pod)
        self.fleet = self.fleet.with_nominated({**self.fleet.nominated, node: nominated})

    def _withdraw(self, name: Name) -> None:
        nomination = self._promised.pop(name, None)
        if nomination is None:
            return
        nomination.over.cancel()
        nominated = tuple(one for one in self.fleet.nominated.get(nomination.node, ()) if one.key != name)
        others = {key: value for key, value in self.fleet.nominated.items() if key != nomination.node}
        self.fleet = self.fleet.with_nominated(others | ({nomination.node: nominated} if nominated else {}))


def _wants_a_node(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.is_terminal
        and pod.metadata.deletion_timestamp is None
        and pod.spec.scheduler_name in OURS
        and not pod.spec.scheduling_gates
    )


def _facts(pod: Pod) -> tuple[object, ...]:
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


def why_nowhere(pod: PodInfo, fleet: NodeSnapshot) -> str:
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
