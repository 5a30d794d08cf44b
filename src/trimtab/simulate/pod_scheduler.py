"""The pod scheduler of a simulated cluster: takes waiting pods by priority, chooses a node, and binds them."""

import asyncio
import contextlib
import heapq
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import uuid4

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, DisruptionPolicySpec, PriorityOrder
from trimtab.api.kinds.native.apps import ReplicaSet, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.network import Service
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod, TopologySpreadConstraint
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.profile import Profile
from trimtab.api.value import Object, Raw
from trimtab.client.client import resource_of
from trimtab.clock import Clock, timestamp
from trimtab.controllers.contract import Note
from trimtab.decide.pods.avoid_list import Avoidance, avoids, entries_of
from trimtab.decide.pods.budgets.budget_status import cover
from trimtab.decide.pods.budgets.pod_budgets import Errand, counts, over_pods
from trimtab.decide.pods.node_info import Resident, resident
from trimtab.decide.pods.node_rejection import words_of
from trimtab.decide.pods.node_snapshot import NodeFleet, takes_room
from trimtab.decide.pods.preemption.fair_share import Fairness
from trimtab.decide.pods.preemption.preempt import (
    PREEMPTED,
    SYSTEM_CRITICAL,
    Candidate,
    Cover,
    Preemption,
    foretold,
    preempt,
    preempted,
)
from trimtab.decide.pods.priority import BY_VALUE, ranks
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import DEFAULT, refusals, schedule
from trimtab.errors import ApiFault, Conflict, NotFound, TooManyRequests
from trimtab.plugins import node_filters, node_scores
from trimtab.registry import discover
from trimtab.runtime.cache import Cache, Entry
from trimtab.runtime.event_recorder import Recorder
from trimtab.server.subresources.binding import BINDER
from trimtab.server.subresources.binding import SEEN as BIND_GENERATION
from trimtab.simulate.disruption_ledger import READ, Ledger
from trimtab.simulate.workloads.owned_pods import PODS_ON, ref

Name = tuple[str, str]
PODS, NODES = resource_of(kind_of(Pod)), resource_of(kind_of(Node))
OURS = frozenset(("", "default-scheduler"))
RETRY_SECONDS = 1.0
"""After something changed that may help, pods that found no node are tried again, all together."""
PATIENCE_SECONDS = 300.0
"""They are tried again after so long even when nothing changed."""
AT_ONCE = 64
PROMISE_SECONDS = 60.0
"""How long after its victims' grace period a pod may still claim the room that was made for it."""
USUAL_GRACE_SECONDS = 30
ERRAND = Errand("preemption", "Preemption")
BOOST_SECONDS = 600.0
"""How long the replacement of a pod that the rescheduler moved goes to the front of the queue."""
RESCHEDULED = "(rescheduler)"
SETS: Mapping[str, type[Object]] = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet}
USUAL_SPREAD = (
    TopologySpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)
"""What kube-scheduler assumes for pods without constraints of their own."""
log = logging.getLogger("trimtab.binder")


class Verdict(NamedTuple):
    """A node for the pod, or why there is none."""

    pod: Resident
    node: str | None
    message: str = ""
    seen: str = ""
    """The revision of the picture on which it was decided."""


class Promise(NamedTuple):
    """Room that is kept for a pod, until it comes or its time is over."""

    node: str
    over: asyncio.TimerHandle


class Binder:
    """Keeps a picture of the cluster up to date, one event at a time, and decides on it."""

    def __init__(self, cache: Cache, *, clock: Clock, profile: Profile, first_fit: bool = False) -> None:
        discover(node_filters)
        discover(node_scores)
        self._cache = cache
        self._client = cache.client
        self._clock = clock
        self._profile = profile
        self._first_fit = first_fit
        self._name = uuid4().hex
        """Tells its bindings from those of other schedulers."""
        self.fleet = NodeFleet.of(())
        self._ranks = BY_VALUE
        self._avoid: dict[str, tuple[Avoidance, ...]] = {}
        """Whom each node would rather not have back."""
        self._boosts: dict[str, float] = {}
        """Owners whose next pod goes first, and until when."""
        self._favoured: dict[Name, float] = {}
        """Pods that go first until they have a node, and until when at most."""
        self._arrivals: dict[Name, int] = {}
        """Who came when: who found no node keeps its place among equals."""
        self._heap: list[tuple[bool, int, int, Name]] = []
        self._waiting: set[Name] = set()
        self._stuck: set[Name] = set()
        """Waiting for the cluster to change."""
        self._assumed: dict[Name, str] = {}
        """Decided, and not yet seen as bound."""
        self._promised: dict[Name, Promise] = {}
        self._expected: dict[str, Resident] = {}
        """By owner: in whose place a pod is expected, under the name under which room is kept for it."""
        self._ledger = Ledger(cache)
        self._recorder = Recorder(self._client)
        self._count = 0
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        """What is being said of promises."""

    async def start(self) -> None:
        further: list[type[Object]] = [DisruptionBudget, DisruptionPolicy, PodDisruptionBudget, Service]
        further += READ if self._profile.preemption_shares_the_burden else ()
        heard = [self._cache.table_of(type_) for type_ in (Node, Pod, Namespace, PriorityClass, PriorityOrder)]
        for table in (*heard, *map(self._cache.table_of, further)):
            await table.synced.wait()
        nodes, pods, namespaces, classes, orders = heard
        classes.listen(self._order_changed)
        orders.listen(self._order_changed)
        nodes.listen(self._node_changed)
        namespaces.listen(self._namespace_changed)
        pods.listen(self._pod_changed)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        for promise in self._promised.values():
            promise.over.cancel()
        for telling in self._telling:
            telling.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._assumed

    # what is heard

    def _node_changed(self, old: Entry | None, new: Entry | None) -> None:
        before = cast("Node", old.typed) if old else None
        if new is None:
            self.fleet = self.fleet.without_node(cast("Entry", old).name[1])
            self._avoid.pop(cast("Entry", old).name[1], None)
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

    def _namespace_changed(self, old: Entry | None, new: Entry | None) -> None:
        name = (new or cast("Entry", old)).name[1]
        labels = {key: value for key, value in self.fleet.namespaces.items() if key != name}
        if new is not None:
            labels[name] = cast("Namespace", new.typed).metadata.labels
        if labels != self.fleet.namespaces:
            self.fleet = self.fleet.with_namespaces(labels)

    def _order_changed(self, old: Entry | None, new: Entry | None) -> None:
        """Who matters more has changed: everybody is ranked anew."""
        order = self._cache.table_of(PriorityOrder).entries.get(("", "default"))
        classes = [cast("PriorityClass", entry.typed) for entry in self._cache.table_of(PriorityClass).entries.values()]
        found = ranks(classes, cast("PriorityOrder", order.typed) if order else None)
        if found == self._ranks:
            return
        self._ranks = found
        for entry in self._cache.table(PODS).entries.values():
            pod = cast("Pod", entry.typed)
            if takes_room(pod):
                self.fleet = self.fleet.with_pod(found.ranked(pod))

    def _pod_changed(self, old: Entry | None, new: Entry | None) -> None:
        before = cast("Pod", old.typed) if old else None
        after = self._ranks.ranked(cast("Pod", new.typed)) if new else None
        if before is not None and after is not None and after.metadata.deletion_timestamp is not None:
            self._boost(before, after)
        if after is not None and takes_room(after):
            self._bound(before, after, cast("Entry", new).name)
            return
        if before is not None and takes_room(before):
            self.fleet = self.fleet.without_pod(before)
            self._stir()
        name = cast("Entry", new or old).name
        if after is not None and _wants_a_node(after):
            if before is None and after.status.nominated_node_name:
                self._take_over(after)
            elif before is None and after.controller is not None and after.controller.uid in self._expected:
                self._hand_over(after, after.controller.uid)
            self._queue(name, after)
        else:
            self._forget(name)

    def _boost(self, before: Pod, after: Pod) -> None:
        """The rescheduler sent this pod away: its replacement need not queue again."""
        moved = any(one.type == "DisruptionTarget" and RESCHEDULED in one.message for one in after.status.conditions)
        if moved and before.metadata.deletion_timestamp is None and after.controller is not None:
            self._boosts[after.controller.uid] = asyncio.get_running_loop().time() + BOOST_SECONDS

    def _is_boosted(self, name: Name, pod: Pod) -> bool:
        if pod.controller is not None and (until := self._boosts.pop(pod.controller.uid, None)) is not None:
            self._favoured[name] = until
        return self._favoured.get(name, 0.0) > asyncio.get_running_loop().time()

    def _bound(self, before: Pod | None, after: Pod, name: Name) -> None:
        settled = self._assumed.pop(name, None) == after.spec.node_name
        self._leave_queue(name)
        seen = before is not None and takes_room(before)
        if settled and not seen:
            return  # it was booked when it was decided
        if before is None or not seen or _facts(before) != _facts(after):
            self.fleet = self.fleet.with_pod(after)

    def _forget(self, name: Name) -> None:
        """The pod no longer wants a node; room that was booked for it is free again."""
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
        leaving = [one for one in here.residents if one.key == name] if here else []
        if leaving:
            self.fleet = self.fleet.vacated(leaving, node)
            self._stir()

    def _queue(self, name: Name, pod: Pod) -> None:
        if name in self._waiting or name in self._stuck or name in self._assumed:
            return
        self._waiting.add(name)
        if name not in self._arrivals:
            self._count += 1
            self._arrivals[name] = self._count
        waits = not self._is_boosted(name, pod)
        heapq.heappush(self._heap, (waits, -self._ranks.of(pod), self._arrivals[name], name))
        self._wake.set()

    def _stir(self) -> None:
        """Something changed that may help those who found no node."""
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

    # what is decided

    def _pod(self, name: Name) -> Pod | None:
        entry = self._cache.table(PODS).entries.get(name)
        pod = cast("Pod", entry.typed) if entry else None
        return pod if pod is not None and _wants_a_node(pod) else None

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while verdicts := self._decide(AT_ONCE):
                await asyncio.gather(*map(self._carry_out, verdicts))

    def _decide(self, most: int) -> list[Verdict]:
        verdicts: list[Verdict] = []
        while self._heap and len(verdicts) < most:
            *_, name = heapq.heappop(self._heap)
            if name not in self._waiting:
                continue
            self._waiting.discard(name)
            if (pod := self._pod(name)) is None:
                continue
            verdict = self._choose(resident(self._ranks.ranked(self._with_usual_spread(pod))))
            if verdict.node is not None:
                self._assumed[name] = verdict.node
                self._withdraw(name)  # else it would count twice
                self.fleet = self.fleet.settled(verdict.pod, verdict.node)
            else:
                self._stuck.add(name)
            verdicts.append(verdict._replace(seen=self._cache.table(PODS).reached))
        return verdicts

    def _with_usual_spread(self, pod: Pod) -> Pod:
        """Pods of one set that say nothing about it prefer different nodes and zones, as in any cluster."""
        owner, type_ = pod.controller, SETS.get(pod.controller.kind) if pod.controller else None
        if owner is None or type_ is None or pod.spec.topology_spread_constraints or self._first_fit:
            return pod
        entry = self._cache.table_of(type_).entries.get((pod.namespace, owner.name))
        selector = cast("ReplicaSet | StatefulSet", entry.typed).spec.selector if entry else None
        spread = tuple(usual.but(label_selector=selector) for usual in USUAL_SPREAD)
        return pod.but(spec=pod.spec.but(topology_spread_constraints=spread)) if selector else pod

    def _choose(self, pod: Resident) -> Verdict:
        if self._first_fit:
            node = first_fit(pod, self.fleet)
            return Verdict(pod, node, "" if node else f"0/{len(self.fleet)} nodes are available.")
        avoided = self._avoided_by(pod.pod)
        if (kept := self._kept(pod)) is not None and kept not in avoided:
            return Verdict(pod, kept)
        decision = schedule(pod, self.fleet, avoided=avoided)
        if decision.node is None:
            return Verdict(pod, None, why_nowhere(pod, self.fleet))
        return Verdict(pod, decision.node)

    def _kept(self, pod: Resident) -> str | None:
        """The node on which room is kept for the pod, if the node would take it now."""
        promise = self._promised.get(pod.key)
        column = self.fleet.hosts.index.get(promise.node) if promise is not None else None
        if promise is None or column is None:
            return None
        ((_, objection),) = refusals(ask_for(pod, self.fleet), self.fleet, [column], DEFAULT)
        return promise.node if objection is None else None

    def _avoided_by(self, pod: Pod) -> list[str]:
        """Nodes that pods of this owner were sent away from."""
        owner = pod.controller
        if owner is None or not any(self._avoid.values()):
            return []
        owners = {owner.uid}
        if (above := self._cache.table_of(ReplicaSet).entries.get((pod.namespace, owner.name))) is not None:
            owners.update(one.uid for one in above.typed.metadata.owner_references if one.controller)
        now = self._clock.now()
        return [node for node, entries in self._avoid.items() if avoids(entries, owners, now)]

    async def _carry_out(self, verdict: Verdict) -> None:
        name = verdict.pod.key
        try:
            if verdict.node is not None:
                await self._bind(verdict.pod.pod, verdict.node, verdict.seen)
                return
            self._ring_in(PATIENCE_SECONDS)
            await self._explain(verdict)
            if not self._first_fit:
                await self._make_room(verdict.pod)
        except (ApiFault, OSError, TimeoutError) as fault:
            if not isinstance(fault, NotFound):
                log.warning("cannot bind %s/%s: %s", *name, fault)
            if (node := self._assumed.pop(name, None)) is not None:
                self._unbook(name, node)
                self._stuck.add(name)
                self._ring_in(RETRY_SECONDS)

    async def _bind(self, pod: Pod, node: str, seen: str) -> None:
        meta = pod.metadata
        noted = {BIND_GENERATION: seen, BINDER: self._name} if self._profile.bind_what_was_seen else {}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "annotations": noted},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.submit(PODS, meta.namespace, meta.name, "binding", binding)

    async def _explain(self, verdict: Verdict) -> None:
        said = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": verdict.message,
        }
        await self._set_condition(verdict.pod.pod, said)

    async def _set_condition(self, pod: Pod, said: Raw, **further: str) -> None:
        """Put this condition on the pod, unless it is there."""
        entry = self._cache.table(PODS).entries.get((pod.namespace, pod.name))
        if entry is None:
            return
        conditions = (entry.raw.get("status") or {}).get("conditions") or []
        known: Raw = next((one for one in conditions if one["type"] == said["type"]), {})
        if said.items() <= known.items() and not further:
            return
        since = known["lastTransitionTime"] if known.get("status") == said["status"] else timestamp(self._clock.now())
        others = [one for one in conditions if one["type"] != said["type"]]
        body = {
            "metadata": {"resourceVersion": entry.revision},
            "status": {"conditions": [*others, {**said, "lastTransitionTime": since}], **further},
        }
        with contextlib.suppress(NotFound, Conflict):  # what is told must not stand in the way of what is done
            answer = await self._client.patch(
                PODS, pod.namespace, pod.name, body, subresource="status", manager="kube-scheduler"
            )
            self._cache.table(PODS).put(answer)

    # preemption

    async def _make_room(self, pod: Resident) -> None:
        """Send less important pods away, if that helps; nobody goes if it does not."""
        if self._pod(pod.key) is None:
            return  # it has gone since it was decided on
        fairness = self._fairness(pod)
        now = self._clock.now()
        burdens = self._ledger.burdens(now) if self._profile.preemption_shares_the_burden else None
        rules = self._profile.but(preemption_obeys_budgets=self._obeys)
        found = preempt(pod, self.fleet, self._covers(), rules, fairness=fairness, burdens=burdens)
        if not isinstance(found, Preemption):
            return
        chosen = found.chosen
        message = _sentence(pod, chosen, self.fleet)
        self._nominate(pod, chosen.node, _grace(chosen.victims) + PROMISE_SECONDS)
        taken = self._ledger.take(chosen.victims, now)
        try:
            await self._write_promise(pod.pod, chosen.node)
            await self._send_away(pod, chosen)
        except (ApiFault, OSError, TimeoutError) as refused:
            log.info("preemption for %s/%s must wait: %s", *pod.key, refused)
            self._ledger.give_back(taken)
            self._withdraw(pod.key)
            self._ring_in(max(RETRY_SECONDS, getattr(refused, "retry_after", None) or 0))
            with contextlib.suppress(ApiFault, OSError):
                await self._write_promise(pod.pod, None)
        else:
            if self._profile.preemption_shares_the_burden:
                self._recorder.tell(Note(ref(pod.pod), "Preempting", message, "default-scheduler"), now)

    async def _send_away(self, pod: Resident, chosen: Candidate) -> None:
        """Through the door, unless it does not bind: the profile has none, or the pod is critical to the system."""
        critical = pod.priority >= SYSTEM_CRITICAL
        if not self._obeys or (critical and chosen.violations):
            await self._end_each(chosen.victims)
            return
        try:
            await self._evict_together(pod, chosen.victims)
        except TooManyRequests:
            if not critical:
                raise
            await self._end_each(chosen.victims)

    def _policy(self) -> DisruptionPolicySpec:
        entry = self._cache.table_of(DisruptionPolicy).entries.get(("", "default"))
        return cast("DisruptionPolicy", entry.typed).spec if entry else DisruptionPolicySpec()

    def _fairness(self, pod: Resident) -> Fairness | None:
        since = pod.pod.metadata.creation_timestamp
        if self._policy().equal_priority_preemption != "Fair" or since is None:
            return None
        services: dict[str, list[Mapping[str, str]]] = {}
        for entry in self._cache.table_of(Service).entries.values():
            services.setdefault(entry.name[0], []).append(cast("Service", entry.typed).spec.selector)
        return Fairness(self._clock.now(), since, self._ledger.claimants(), services)

    @property
    def _obeys(self) -> bool:
        """Whether budgets bind preemption."""
        return self._profile.preemption_obeys_budgets and self._policy().preemption_budgets != "BestEffort"

    async def _evict_together(self, pod: Resident, victims: Sequence[Resident]) -> None:
        """All victims in one step through the door, or none."""
        if not victims:
            return
        first, *others = victims
        noted = {"trimtab.dev/requested-by": ERRAND.by, "reason": f"room for {'/'.join(pod.key)}"}
        if others:
            noted["trimtab.dev/together"] = ",".join("/".join(one.key) for one in others)
        metadata = {"name": first.name, "namespace": first.namespace, "annotations": noted}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self._client.submit(PODS, first.namespace, first.name, "eviction", eviction)

    async def _end_each(self, victims: Sequence[Resident]) -> None:
        """As kube-scheduler does: a notice and a plain deletion, which no budget can refuse."""
        notice = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED,
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
        }
        for victim in victims:
            await self._set_condition(victim.pod, notice)
            with contextlib.suppress(NotFound):
                await self._client.delete(PODS, victim.namespace, victim.name, uid=victim.pod.metadata.uid)

    def _break_promise(self, name: Name) -> None:
        """The pod did not come although its room should have been free for long, or others need it more."""
        self._withdraw(name)
        self._ring_in(RETRY_SECONDS)
        if (pod := self._pod(name)) is not None:
            self._say(self._write_promise(pod, None))

    def _say(self, promise: Coroutine[Any, Any, None]) -> None:
        """Write down what became of a promise, meanwhile; it holds all the same if that fails."""

        async def said() -> None:
            with contextlib.suppress(ApiFault, OSError):
                await promise

        telling = asyncio.get_running_loop().create_task(said())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _write_promise(self, pod: Pod, node: str | None) -> None:
        patch = {"status": {"nominatedNodeName": node}}
        answer = await self._client.patch(
            PODS, pod.namespace, pod.name, patch, subresource="status", manager="kube-scheduler"
        )
        self._cache.table(PODS).put(answer)

    def _take_over(self, pod: Pod) -> None:
        """A promise that somebody else made: a scheduler before this one, most likely."""
        node, now = pod.status.nominated_node_name, self._clock.now()
        leaving = [one for one in self._cache.table(PODS).having(PODS_ON, node) if preempted(one)]
        ends = [one.metadata.deletion_timestamp for one in leaving if one.metadata.deletion_timestamp is not None]
        seconds = max(((end - now).total_seconds() for end in ends), default=0.0)
        self._nominate(resident(pod), node, max(0.0, seconds) + PROMISE_SECONDS)

    def keep(self, pod: Pod, node: str) -> None:
        """This pod is about to go, and its replacement is expected on the node: from now on there is room for it."""
        if pod.controller is None:
            return
        name = f"{pod.name}~"  # no pod has such a name, and a replacement may have that of the pod
        expected = resident(pod.but(metadata=pod.metadata.but(name=name), spec=pod.spec.but(node_name="")))
        self._expected[pod.controller.uid] = expected
        self._nominate(expected, node, _grace([expected]) + PROMISE_SECONDS)

    def let_go(self, pod: Pod) -> None:
        """The pod stays after all."""
        expected = self._expected.pop(pod.controller.uid, None) if pod.controller is not None else None
        if expected is not None:
            self._withdraw(expected.key)
            self._ring_in(RETRY_SECONDS)

    def _hand_over(self, pod: Pod, owner: str) -> None:
        """The replacement is here: the room that was kept is now its own."""
        promise = self._promised.get(self._expected[owner].key)
        self._withdraw(self._expected.pop(owner).key)
        if promise is not None:
            self._nominate(resident(pod), promise.node, PROMISE_SECONDS)
            self._say(self._write_promise(pod, promise.node))

    def _covers(self) -> list[Cover]:
        now = self._clock.now() if self._profile.preemption_obeys_budgets else None  # else as kube-scheduler sees them
        found = [
            cover(cast("PodDisruptionBudget", entry.typed), now)
            for entry in self._cache.table_of(PodDisruptionBudget).entries.values()
        ]
        if now is not None:
            own = [
                cast("DisruptionBudget", entry.typed)
                for entry in self._cache.table_of(DisruptionBudget).entries.values()
            ]
            found += [cover(budget, now) for budget in own if over_pods(budget) and counts(budget, ERRAND)]
        return found

    def _nominate(self, pod: Resident, node: str, seconds: float) -> None:
        """Keep room on this node for the pod, so long; whoever matters less and was promised it is no longer."""
        self._withdraw(pod.key)
        for one in self.fleet.nominated.get(node, ()):
            if one.priority < pod.priority:
                self._break_promise(one.key)
        over = asyncio.get_running_loop().call_later(seconds, self._break_promise, pod.key)
        self._promised[pod.key] = Promise(node, over)
        waiting = (*self.fleet.nominated.get(node, ()), pod)
        self.fleet = self.fleet.with_nominated({**self.fleet.nominated, node: waiting})

    def _withdraw(self, name: Name) -> None:
        promise = self._promised.pop(name, None)
        if promise is None:
            return
        promise.over.cancel()
        waiting = tuple(one for one in self.fleet.nominated.get(promise.node, ()) if one.key != name)
        others = {key: value for key, value in self.fleet.nominated.items() if key != promise.node}
        self.fleet = self.fleet.with_nominated(others | ({promise.node: waiting} if waiting else {}))


def _sentence(pod: Resident, chosen: Candidate, fleet: NodeFleet) -> str:
    """Who goes for this pod, and what will become of them."""
    told = [f"{'/'.join(one.key)} ({outcome})" for one, outcome in foretold(pod, chosen, fleet)]
    return f"evicts {', '.join(told)} from {chosen.node}"


def _grace(victims: Sequence[Resident]) -> int:
    """How long these may take to end."""
    times = [one.pod.spec.termination_grace_period_seconds for one in victims]
    return max((USUAL_GRACE_SECONDS if time is None else time for time in times), default=0)


def _wants_a_node(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.terminal
        and pod.metadata.deletion_timestamp is None
        and pod.spec.scheduler_name in OURS
        and not pod.spec.scheduling_gates
    )


def _facts(pod: Pod) -> tuple[object, ...]:
    """What other pods and preemption can see of a bound pod."""
    return (
        pod.metadata.labels,
        pod.metadata.deletion_timestamp,
        pod.spec,
        pod.status.start_time,
    )


def first_fit(pod: Resident, fleet: NodeFleet) -> str | None:
    """The first node by name with room, whatever else may be said of it."""
    for name in sorted(fleet.hosts.names):
        here = fleet.get(name)
        if here is None or here.node.spec.unschedulable or here.free_pods < 1:
            continue
        if all(here.free(resource) >= amount for resource, amount in pod.demand.requests.items()):
            return name
    return None


def why_nowhere(pod: Resident, fleet: NodeFleet) -> str:
    """The sentence with which kube-scheduler says that no node will do."""
    total = len(fleet)
    if not total:
        return "no nodes available to schedule pods"
    reasons: Counter[str] = Counter()
    for _, objection in refusals(ask_for(pod, fleet), fleet, range(total), DEFAULT):
        if objection is not None:
            reasons.update(words_of(objection.reason))
    counted = ", ".join(sorted(f"{count} {message}" for message, count in reasons.items()))
    return f"0/{total} nodes are available: {counted}."
