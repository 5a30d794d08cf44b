"""One consistent snapshot of a cluster for one round: nodes, pods, owners, budgets, metrics and history."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.affinity.selector_groups import Groups
from trimtab.decide.pods.avoid_list import Avoidance, avoids, entries_of
from trimtab.decide.pods.budgets.budget_status import cover
from trimtab.decide.pods.budgets.component_quota import charged
from trimtab.decide.pods.budgets.eviction import Budget
from trimtab.decide.pods.budgets.pod_budgets import Errand, Guard, PodBudget, guards, standing_of
from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.metrics.measurements import Measures
from trimtab.decide.pods.node_info import Resident
from trimtab.decide.pods.pod_traits import ON_REQUEST
from trimtab.decide.pods.preemption.recent_disruptions import Burden, burden
from trimtab.decide.pods.schedule import DEFAULT, Taste
from trimtab.decide.rescheduling.history import (
    BACK,
    DONE,
    PENDING,
    PENDING_TOO_LONG,
    Fall,
    History,
    Moved,
    Pressure,
    Scale,
)
from trimtab.decide.rescheduling.score_gain import PACKING, Bench
from trimtab.decide.rescheduling.settings import Settings

ERRAND = Errand("rescheduler", "Reschedule")
WAITS_TOO_LONG = timedelta(seconds=30)
FALLS_REMEMBERED, LATELY_BORN = timedelta(hours=1), timedelta(minutes=30)
MOST_FALLS = 5000
ASKED_FOR = timedelta(minutes=10)
"""How long another component may take to move a pod after it was requested."""
CPU_PRESSURE = "CPUPressure"
"""The condition of nodes on which containers wait for CPU, where a component reports it."""
SATURATED = 95
"""CPU usage in percent from which a node counts as under pressure, where no component reports it."""
Set = ReplicaSet | StatefulSet


class Owner(NamedTuple):
    """The top-level owner of pods: the Deployment rather than its ReplicaSets."""

    uid: str
    name: str
    replicas: int
    """The desired number; 0 when it is not known."""
    rolling: bool
    """A rollout is in progress, or the controller has not observed the latest generation."""


class Facts(NamedTuple):
    """The objects that a snapshot is built from."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    deployments: Sequence[Deployment] = ()
    sets: Sequence[Set] = ()
    budgets: Sequence[PodBudget] = ()
    policy: DisruptionPolicy | None = None
    """The quotas and usage of components; the default quotas apply where it sets none."""
    namespaces: Mapping[str, Labels] = {}
    services: Mapping[str, Mapping[str, Labels]] = {}
    """The selectors of services, by namespace and name."""
    storage_classes: Mapping[tuple[str, str], str] = {}
    """The class of each claim, by namespace and name."""
    priorities: Mapping[str, int] = {}
    """The value of each PriorityClass, by name."""
    others: Sequence[Owner] = ()
    """Other owners of pods: ReplicationControllers, and custom resources with a scale subresource."""
    spreads_by_default: bool = False
    """The scheduler of this cluster applies default spread constraints, as kube-scheduler does."""
    avoidance: bool = True
    """The scheduler of this cluster honours avoid lists."""
    overlap_refused: bool = False
    """The API server refuses to evict pods with several budgets."""
    ends: Mapping[str, Mapping[str, datetime]] = {}
    """Recently evicted pods by owner, with the time, as far as events report it."""
    measures: Measures | None = None
    """None when there is no metrics source; objectives that need it are off."""


class Picture:
    """Does not change while objectives read it."""

    def __init__(self, facts: Facts, settings: Settings, history: History, now: datetime) -> None:
        self.facts, self.settings, self.now = facts, settings, now
        self._families: dict[str, list[Pod]] = {}
        self._burdens: dict[str, Burden] = {}
        self.scene = Scene.of(
            facts.nodes,
            facts.pods,
            now=now,
            namespaces=facts.namespaces,
            covers=tuple(cover(one) for one in facts.budgets if isinstance(one, PodDisruptionBudget)),
            storage_classes=facts.storage_classes,
            priorities=facts.priorities,
        )
        self.fleet = self.scene.fleet.with_groups(_groups(facts)) if facts.spreads_by_default else self.scene.fleet
        self.history = self._lived(history)

    @cached_property
    def running(self) -> list[Resident]:
        """Every pod with a node that has not finished, by namespace and name."""
        return sorted((one for node_info in self.fleet.hosts for one in node_info.residents), key=lambda one: one.key)

    @cached_property
    def pending(self) -> list[Resident]:
        """Pods that have been pending for long."""
        found = []
        for one in self.scene.homeless:
            since = one.pod.metadata.creation_timestamp
            gated = bool(one.pod.spec.scheduling_gates)  # not schedulable yet, so it competes for no capacity
            if not one.terminating and not gated and since is not None and self.now - since >= WAITS_TOO_LONG:
                found.append(one)
        return sorted(found, key=lambda one: (-one.priority, one.key))

    @cached_property
    def bench(self) -> Bench:
        """A shared trial fleet for one move at a time; code that removes a pod puts it back."""
        return self.fresh_bench()

    def fresh_bench(self) -> Bench:
        """A separate trial fleet."""
        return Bench(self.fleet, self.taste)

    @property
    def taste(self) -> Taste:
        """The profile of the cluster's scheduler."""
        return PACKING if self.settings.packing else DEFAULT

    # owners

    @cached_property
    def _owners(self) -> dict[str, Owner]:
        """By the uid of the controller that pods reference."""
        tops = {one.metadata.uid: _owner(one) for one in self.facts.deployments}
        found = {one.uid: one for one in self.facts.others}
        tops |= found
        for one in self.facts.sets:
            above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
            found[one.metadata.uid] = tops.get(above) or _owner(one)
        return found

    def owner(self, pod: Pod) -> Owner:
        ref = pod.controller
        if ref is None:
            return Owner("", pod.name, 1, rolling=False)
        return self._owners.get(ref.uid) or Owner(ref.uid, f"{ref.kind}/{ref.name}", 0, rolling=False)

    def meet(self, owners: Iterable[str]) -> None:
        """Find the pods of these owners in one pass; a list for every owner of a large cluster costs too much."""
        wanted = {uid for uid in owners if uid and uid not in self._families}
        if not wanted:
            return
        self._families.update((uid, []) for uid in wanted)
        below = {uid: owner.uid for uid, owner in self._owners.items() if owner.uid in wanted}
        lists = {uid: self._families[below.get(uid, uid)] for uid in (*wanted, *below)}
        for one in self.scene.everyone:
            if (owner_pods := lists.get(one.traits.controller)) is not None:
                owner_pods.append(one.pod)

    def family_of(self, owner: str) -> list[Pod]:
        """Every pod of this owner, whatever its phase."""
        self.meet([owner])
        return self._families.get(owner, [])

    def family(self, pod: Pod) -> list[Pod]:
        return self.family_of(self.owner(pod).uid) or [pod]

    def burden(self, pod: Pod) -> Burden:
        """The recent disruptions of the pod's owner, whatever caused them."""
        owner = self.owner(pod)
        if owner.uid not in self._burdens:
            owner_pods = [one for one in self.family(pod) if not one.is_terminal]
            ends = {move.pod: move.at for move in self.history.of(owner.uid) if move.at is not None}
            wanted = owner.replicas or sum(one.metadata.deletion_timestamp is None for one in owner_pods)
            condition = self.facts.ends.get(owner.uid, {})
            self._burdens[owner.uid] = burden(owner.uid, wanted, owner_pods, {**condition, **ends}, self.now)
        return self._burdens[owner.uid]

    def service(self, pod: Resident) -> str:
        """The services that select a pod, as one name: its dependents, whatever its owner."""
        selectors = self.facts.services.get(pod.namespace, {}).items()
        names = [name for name, labels in selectors if labels and labels.items() <= pod.labels.items()]
        return f"{pod.namespace}/{','.join(sorted(names))}" if names else ""

    # nodes

    @cached_property
    def closed(self) -> frozenset[str]:
        """Nodes that must not be targets: cordoned, not ready, or about to be removed by others."""
        taints, selector = set(self.settings.avoided_taints), self.settings.exclude.node_selector
        return frozenset(
            node_info.name
            for node_info in self.fleet.hosts
            if node_info.node.spec.unschedulable
            or any(one.type == "Ready" and one.status != "True" for one in node_info.node.status.conditions)
            or any(taint.key in taints for taint in node_info.node.spec.taints)
            or (selector is not None and selector.matches(node_info.labels))
        )

    @cached_property
    def _lists(self) -> list[tuple[str, tuple[Avoidance, ...]]]:
        """Nodes that have an avoid list."""
        found = [(node_info.name, entries_of(node_info.node.metadata.annotations)) for node_info in self.fleet.hosts]
        return [(name, entries) for name, entries in found if entries]

    def avoided_by(self, pod: Pod) -> list[str]:
        ref = pod.controller
        if ref is None:
            return []
        uids = {ref.uid, self.owner(pod).uid}
        return [name for name, entries in self._lists if avoids(entries, uids, self.now)]

    # budgets

    def standings(self, pod: Pod) -> list[Budget]:
        return [standing_of(Guard(budget), self.now) for budget in self.facts.budgets if guards(budget, pod, ERRAND)]

    @cached_property
    def quota(self) -> DisruptionPolicy:
        """What the rescheduler may still disrupt: as stored in the cluster, else from the history."""
        found = self.facts.policy or DisruptionPolicy()
        if found.status.components:
            return found
        for move in self.history.moves:
            namespace, _, name = move.name.partition("/")
            if move.at is not None and not move.free:
                found = charged(found, ERRAND, (namespace, name), self.on_their_way.__contains__, move.at)
        return found

    @cached_property
    def on_their_way(self) -> frozenset[str]:
        """Pods, by namespace and name, that are terminating, or that were moved and are not yet replaced."""
        ending = {"/".join(one.key) for one in self.scene.everyone if one.terminating}
        return frozenset(ending | {move.name for move in self.history.moves if not move.outcome and not move.free})

    # history

    def _lived(self, history: History) -> History:
        """The history up to now: outcomes of moves, times of scaling, durations of node pressure."""
        self.meet(move.owner for move in history.moves if not move.outcome)
        taken: set[str] = set()
        moves = tuple(move for one in history.moves if (move := self._judged(one, taken)) is not None)
        return history.but(
            moves=moves,
            scales=self._scales(history),
            pressures=self._pressures(history),
            falls=self._falls(history) if self._judges_service else (),
        )

    @property
    def _judges_service(self) -> bool:
        return any(one.name == "PoorService" and one.enabled for one in self.settings.objectives)

    def _falls(self, history: History) -> tuple[Fall, ...]:
        """Restarts when they are observed: the API server reports how many there were, not when."""
        before: dict[str, int] = {}
        for fall in history.falls:
            before[fall.pod] = max(before.get(fall.pod, 0), fall.restarts)
        removed = set(before)
        found = [one for one in history.falls if self.now - (one.at or self.now) <= FALLS_REMEMBERED]
        for one in self.scene.everyone:
            restarts = restarts_of(one.pod)
            removed.discard(one.pod.metadata.uid)
            if restarts and restarts != before.get(one.pod.metadata.uid, 0):
                found.append(self._fall(one.pod, restarts, before.get(one.pod.metadata.uid)))
        return tuple(one for one in found if one.pod not in removed)[-MOST_FALLS:]

    def _fall(self, pod: Pod, restarts: int, before: int | None) -> Fall:
        """For a pod that is observed for the first time only restarts that must be recent count."""
        if before is None:
            started = pod.status.start_time
            young = started is not None and self.now - started <= LATELY_BORN
            before = 0 if young else max(0, restarts - 1)
        return Fall(
            pod=pod.metadata.uid,
            owner=self.owner(pod).uid,
            node=pod.spec.node_name,
            times=max(0, restarts - before),
            killed=was_killed(pod),
            at=last_end(pod) or self.now,
            restarts=restarts,
        )

    def fallen(self, pod: Pod, within: timedelta) -> int:
        """How often a pod was restarted in this period."""
        return sum(one.times for one in self.history.falls if one.pod == pod.metadata.uid and self._lately(one, within))

    def killed(self, owner: str, node: str, within: timedelta) -> int:
        """How often pods of an owner were killed or evicted on a node because of memory in this period."""
        falls = [one for one in self.history.falls if one.owner == owner and one.node == node and one.killed]
        evicted = [
            pod
            for pod in self.family_of(owner)
            if pod.status.phase == "Failed" and pod.status.reason == "Evicted" and pod.spec.node_name == node
        ]
        recent = [pod for pod in evicted if self.now - (pod.status.start_time or self.now) <= within]
        return sum(one.times for one in falls if self._lately(one, within)) + len(recent)

    def _lately(self, fall: Fall, within: timedelta) -> bool:
        return self.now - (fall.at or self.now) <= within

    def _judged(self, move: Moved, taken: set[str]) -> Moved | None:
        """The outcome of a move; None when it was recorded and never made."""
        if move.outcome or move.at is None:
            return move
        still = next((pod for pod in self.family_of(move.owner) if pod.metadata.uid == move.pod), None)
        if still is not None:
            patience = ASKED_FOR if ON_REQUEST in still.metadata.annotations else PENDING_TOO_LONG
            ends = still.metadata.deletion_timestamp is not None or self.now - move.at < patience
            return move if ends else None
        replacements = [
            pod
            for pod in self.family_of(move.owner)
            if (pod.metadata.creation_timestamp or move.at) >= move.at.replace(microsecond=0)
            and pod.metadata.uid != move.pod
            and pod.metadata.uid not in taken
        ]
        settled = sorted((pod for pod in replacements if pod.spec.node_name), key=lambda pod: pod.name)
        if settled:
            replacement = settled[0]
            taken.add(replacement.metadata.uid)
            node = replacement.spec.node_name
            return move.but(outcome=BACK if node == move.source else DONE, target=node)
        if self.now - move.at >= PENDING_TOO_LONG:
            return move.but(outcome=PENDING if replacements else DONE)
        return move

    def _scales(self, history: History) -> tuple[Scale, ...]:
        before = {one.owner: one for one in history.scales}
        found = []
        for owner in sorted(set(self._owners.values())):
            known = before.get(owner.uid)
            same = known is not None and known.replicas == owner.replicas
            since = known.since if same and known is not None else (self.now if known is not None else None)
            found.append(Scale(owner=owner.uid, replicas=owner.replicas, since=since))
        return tuple(found)

    def _pressures(self, history: History) -> tuple[Pressure, ...]:
        """Nodes under CPU pressure: by condition, or by measured usage; none without metrics."""
        if self.facts.measures is None:
            return ()
        found = []
        for node_info in self.fleet.hosts:
            condition = next((one for one in node_info.node.status.conditions if one.type == CPU_PRESSURE), None)
            used = self.facts.measures.nodes.get(node_info.name, {}).get("cpu", 0)
            size = node_info.allocatable.get("cpu", 0)
            if condition is not None:
                if condition.status == "True":
                    found.append(
                        Pressure(node=node_info.name, since=condition.last_transition_time or self.now, told=True)
                    )
            elif size and 100 * used >= SATURATED * size:
                found.append(Pressure(node=node_info.name, since=history.pressed_since(node_info.name) or self.now))
        return tuple(found)


def restarts_of(pod: Pod) -> int:
    return max((one.restart_count for one in pod.status.container_statuses), default=0)


def was_killed(pod: Pod) -> bool:
    """Whether a container last ended because of memory."""
    ends = [end for one in pod.status.container_statuses for end in (one.last_state.terminated, one.state.terminated)]
    return any(end is not None and end.reason == "OOMKilled" for end in ends)


def last_end(pod: Pod) -> datetime | None:
    ends = [one.last_state.terminated for one in pod.status.container_statuses]
    return max((end.finished_at for end in ends if end is not None and end.finished_at is not None), default=None)


def _groups(facts: Facts) -> Groups:
    services = {namespace: list(found.values()) for namespace, found in facts.services.items()}
    return Groups(
        services, {one.metadata.uid: one.spec.selector for one in facts.sets if one.spec.selector is not None}
    )


def _owner(top: Deployment | Set) -> Owner:
    wanted = 1 if top.spec.replicas is None else top.spec.replicas
    rolling = top.status.observed_generation < top.metadata.generation
    if isinstance(top, Deployment):
        rolling = rolling or top.status.updated_replicas != wanted
    elif isinstance(top, StatefulSet):
        rolling = rolling or bool(
            top.status.update_revision and top.status.update_revision != top.status.current_revision
        )
    return Owner(top.metadata.uid, f"{type(top).__name__}/{top.name}", wanted, rolling)
