"""One consistent picture of a cluster for one round: nodes, pods, owners, budgets, measurements and what was before."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.evict import Budget
from trimtab.decide.pods.avoid import Avoidance, avoids, entries_of
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.guard import Errand, Guard, PodBudget, guards, standing_of
from trimtab.decide.pods.host import Resident
from trimtab.decide.pods.scene import Scene
from trimtab.decide.pods.terms import Labels
from trimtab.decide.reschedule.gains import Bench
from trimtab.decide.reschedule.history import BACK, DONE, PENDING, PENDING_TOO_LONG, History, Moved, Pressure, Scale
from trimtab.decide.reschedule.settings import Settings

ERRAND = Errand("rescheduler", "Reschedule")
WAITS_TOO_LONG = timedelta(seconds=30)
SETTLES_AFTER_SCALING = timedelta(minutes=5)
HIGH_PRESSURE = 40.0
Set = ReplicaSet | StatefulSet


class Measures(NamedTuple):
    """What is measured, where there is a source for it: else the objective that needs it is off."""

    pressure: Mapping[str, float] = {}
    """Percent of the time in which something on a node waits for CPU."""
    cpu: Mapping[tuple[str, str], int] = {}
    """What pods use, in thousandths."""


class Owner(NamedTuple):
    """Whose pods they are, seen from the top: the Deployment rather than its ReplicaSets."""

    uid: str
    name: str
    replicas: int
    rolling: bool
    """New and old pods change places, or its controller has not looked yet."""


class Facts(NamedTuple):
    """What a picture is made of."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    deployments: Sequence[Deployment] = ()
    sets: Sequence[Set] = ()
    budgets: Sequence[PodBudget] = ()
    namespaces: Mapping[str, Labels] = {}
    measures: Measures | None = None


class Picture:
    """Nothing in it changes while objectives look at it."""

    def __init__(self, facts: Facts, settings: Settings, history: History, now: datetime) -> None:
        self.facts, self.settings, self.now = facts, settings, now
        self._families: dict[str, list[Pod]] = {}
        self.scene = Scene.of(facts.nodes, facts.pods, now=now, namespaces=facts.namespaces)
        self.history = self._lived(history)

    @property
    def fleet(self) -> NodeFleet:
        return self.scene.fleet

    @cached_property
    def running(self) -> list[Resident]:
        """Every pod with a node that has not ended, by namespace and name."""
        return sorted((one for here in self.fleet.hosts for one in here.residents), key=lambda one: one.key)

    @cached_property
    def pending(self) -> list[Resident]:
        """Pods that have waited for a node for long."""
        found = []
        for one in self.scene.homeless:
            since = one.pod.metadata.creation_timestamp
            if not one.terminating and since is not None and self.now - since >= WAITS_TOO_LONG:
                found.append(one)
        return sorted(found, key=lambda one: (-one.priority, one.key))

    @cached_property
    def bench(self) -> Bench:
        """The same picture, to try moves on one at a time; whoever takes a pod away puts it back."""
        return Bench(self.fleet)

    # owners

    @cached_property
    def _owners(self) -> dict[str, Owner]:
        """By the uid of the controller that pods name."""
        tops = {one.metadata.uid: one for one in self.facts.deployments}
        found: dict[str, Owner] = {}
        for one in self.facts.sets:
            above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
            found[one.metadata.uid] = _owner(tops.get(above, one))
        return found

    def owner(self, pod: Pod) -> Owner:
        ref = pod.controller
        if ref is None:
            return Owner("", pod.name, 1, rolling=False)
        return self._owners.get(ref.uid) or Owner(ref.uid, f"{ref.kind}/{ref.name}", 1, rolling=False)

    def meet(self, owners: Iterable[str]) -> None:
        """Find the pods of these owners in one walk; a list for every owner of a large cluster costs too much."""
        wanted = {uid for uid in owners if uid and uid not in self._families}
        if not wanted:
            return
        self._families.update((uid, []) for uid in wanted)
        below = {uid: owner.uid for uid, owner in self._owners.items() if owner.uid in wanted}
        lists = {uid: self._families[below.get(uid, uid)] for uid in (*wanted, *below)}
        for one in self.scene.everyone:
            if (family := lists.get(one.traits.controller)) is not None:
                family.append(one.pod)

    def family_of(self, owner: str) -> list[Pod]:
        """Every pod of this owner, whatever its phase."""
        self.meet([owner])
        return self._families.get(owner, [])

    def family(self, pod: Pod) -> list[Pod]:
        return self.family_of(self.owner(pod).uid) or [pod]

    # nodes

    @cached_property
    def closed(self) -> frozenset[str]:
        """Nodes that nobody should be sent to: cordoned, not ready, or about to be removed by others."""
        taints, selector = set(self.settings.avoided_taints), self.settings.exclude.node_selector
        return frozenset(
            here.name
            for here in self.fleet.hosts
            if here.node.spec.unschedulable
            or any(one.type == "Ready" and one.status != "True" for one in here.node.status.conditions)
            or any(taint.key in taints for taint in here.node.spec.taints)
            or (selector is not None and selector.matches(here.labels))
        )

    @cached_property
    def _lists(self) -> list[tuple[str, tuple[Avoidance, ...]]]:
        """Nodes that have an avoid list."""
        found = [(here.name, entries_of(here.node.metadata.annotations)) for here in self.fleet.hosts]
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

    # what was before

    def _lived(self, history: History) -> History:
        """The history up to now: what came of moves, when owners were scaled, how long nodes have been pressed."""
        self.meet(move.owner for move in history.moves if not move.outcome)
        taken: set[str] = set()
        moves = tuple(self._judged(move, taken) for move in history.moves)
        return history.but(moves=moves, scales=self._scales(history), pressures=self._pressures(history))

    def _judged(self, move: Moved, taken: set[str]) -> Moved:
        if move.outcome or move.at is None:
            return move
        if any(pod.metadata.uid == move.pod for pod in self.family_of(move.owner)):
            return move  # it is still ending
        heirs = [
            pod
            for pod in self.family_of(move.owner)
            if (pod.metadata.creation_timestamp or move.at) >= move.at.replace(microsecond=0)
            and pod.metadata.uid != move.pod
            and pod.metadata.uid not in taken
        ]
        settled = sorted((pod for pod in heirs if pod.spec.node_name), key=lambda pod: pod.name)
        if settled:
            heir = settled[0]
            taken.add(heir.metadata.uid)
            node = heir.spec.node_name
            return move.but(outcome=BACK if node == move.source else DONE, target=node)
        if self.now - move.at >= PENDING_TOO_LONG:
            return move.but(outcome=PENDING if heirs else DONE)
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
        pressed = self.facts.measures.pressure if self.facts.measures is not None else {}
        return tuple(
            Pressure(node=node, since=history.pressed_since(node) or self.now)
            for node, percent in sorted(pressed.items())
            if percent > HIGH_PRESSURE
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
