"""The shared view model: facts about every object, with sums that are kept current change by change.

A page never reads the store. It reads this model, which the listeners of the caches update. What a user may not see is
left out by namespace: every sum exists once per namespace, and once for all of them.

Each change gets a number. `topics` has the number of the last change of each topic (`clusters`, `workloads`,
`workload:NAMESPACE/KIND/NAME`), so that a page knows without work whether anything on it has changed.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, Move
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement, PlacementDecision
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding
from trimtab.console.cluster_facts import ClusterFacts, cluster_facts
from trimtab.console.facts import (
    CLUSTER_WIDE,
    BudgetFacts,
    EventFacts,
    MoveFacts,
    RebalanceFacts,
    budget_facts,
    move_facts,
    rebalance_facts,
)
from trimtab.console.workload_facts import WorkloadFacts, workload_facts

Namespaces = Collection[str] | None
"""Namespaces that a user may see; None means all."""
Flow = tuple[str, str, str]
"""The cluster that is left, the cluster that gains, the cause."""
Subject = tuple[str, str, str]
"""Kind, namespace and name of an object."""
MAX_EVENTS = 60
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
CELL_FIELDS = ("ready", "held", "blocked", "starting", "lost")


class Sums:
    """Sums over the workloads and the moves of one namespace, or of all."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.ready = 0
        self.desired = 0
        self.in_cluster: dict[str, Counter[str]] = {}
        self.flows: Counter[Flow] = Counter()
        self.moves = 0
        self.moving_replicas = 0
        self.outcomes: Counter[str] = Counter()
        """All moves by outcome; those in progress have none."""

    def add_workload(self, workload: WorkloadFacts, sign: int) -> None:
        self.states[workload.state] += sign
        if workload.counted:
            self.ready += sign * workload.ready
            self.desired += sign * workload.desired
        for name, cell in workload.cells.items():
            counts = self.in_cluster.setdefault(name, Counter())
            counts["workloads"] += sign
            for field in CELL_FIELDS:
                counts[field] += sign * getattr(cell, field)

    def add_move(self, move: MoveFacts, sign: int) -> None:
        self.outcomes[move.outcome] += sign
        if move.outcome:
            return
        self.moves += sign
        self.moving_replicas += sign * move.replicas
        for target, replicas in move.targets:
            flow = (move.source, target, move.cause)
            self.flows[flow] += sign * replicas
            if not self.flows[flow]:
                del self.flows[flow]

    def add(self, other: "Sums") -> None:
        self.states.update(other.states)
        self.ready += other.ready
        self.desired += other.desired
        self.moves += other.moves
        self.moving_replicas += other.moving_replicas
        self.outcomes.update(other.outcomes)
        self.flows.update(other.flows)
        for name, counts in other.in_cluster.items():
            self.in_cluster.setdefault(name, Counter()).update(counts)


class FleetModel:
    """All facts of one control plane."""

    def __init__(self, labels_of: Callable[[Binding], Mapping[str, str]] = lambda _: {}) -> None:
        """`labels_of` returns the labels of the template of a binding."""
        self.version = 0
        self.topics: Counter[str] = Counter()
        self.clusters: dict[str, ClusterFacts] = {}
        self.workloads: dict[str, WorkloadFacts] = {}
        self.workload_keys: list[str] = []
        """Sorted by namespace, kind and name."""
        self.in_cluster: dict[str, set[str]] = {}
        """The keys of the workloads in each cluster."""
        self.by_state: dict[str, set[str]] = {}
        self.moves: dict[str, MoveFacts] = {}
        self.moves_of: dict[str, set[str]] = {}
        self.move_log: list[tuple[datetime, str]] = []
        """Start and id of all moves, the oldest first."""
        self.going: set[str] = set()
        self.budgets: dict[str, BudgetFacts] = {}
        self.rebalances: dict[str, RebalanceFacts] = {}
        self.policy: DisruptionPolicy | None = None
        self.placements: dict[str, OcmPlacement] = {}
        self.decisions: dict[str, PlacementDecision] = {}
        self.scores: dict[str, AddOnPlacementScore] = {}
        self.bindings: dict[str, Binding] = {}
        self.typed_clusters: dict[str, Cluster] = {}
        self.typed_budgets: dict[str, DisruptionBudget] = {}
        self.events: dict[Subject, dict[str, EventFacts]] = {}
        """The latest events of each object, by name."""
        self.labels_of = labels_of
        self._listeners: list[Callable[[], None]] = []
        self._sums: dict[str | None, Sums] = {None: Sums()}
        self._states: dict[str, str] = {}

    # changes

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change."""
        self._listeners.append(listener)

    def count_change(self, *topics: str) -> int:
        """Number a change of these topics."""
        self.version += 1
        for topic in topics:
            self.topics[topic] = self.version
        for listener in self._listeners:
            listener()
        return self.version

    def put_cluster(self, name: str, cluster: Cluster | None) -> None:
        old = self.clusters.get(name)
        if cluster is None:
            self.clusters.pop(name, None)
            self.typed_clusters.pop(name, None)
            self._states.pop(name, None)
            self.count_change("clusters", f"cluster:{name}")
            return
        self.typed_clusters[name] = cluster
        new = cluster_facts(cluster)
        if old is not None and new == cluster_without_version(old):
            return
        version = self.count_change("clusters", f"cluster:{name}")
        self.clusters[name] = cluster_facts(cluster, version)
        self._states[name] = new.state
        if old is None or old.state != new.state:
            for key in list(self.in_cluster.get(name, ())):
                self._refresh_workload(key)

    def put_binding(self, binding: Binding | None, old: Binding | None) -> None:
        """Store a binding; what only follows another workload as its dependency is left out."""
        if old is not None and (binding is None or key_of(binding) != key_of(old)):
            self._drop_workload(key_of(old))
        if binding is None:
            return
        key = key_of(binding)
        if binding.spec.placement is None:
            self._drop_workload(key)
            return
        self.bindings[key] = binding
        self._refresh_workload(key)

    def _refresh_workload(self, key: str) -> None:
        binding = self.bindings[key]
        old = self.workloads.get(key)
        new = workload_facts(binding, self._states, self.labels_of(binding), self.version + 1)
        if old is not None and without_version(old) == without_version(new):
            return
        self._forget_workload(key)
        self.workloads[key] = new
        if old is None:
            insort(self.workload_keys, key)
        self.by_state.setdefault(new.state, set()).add(key)
        for name in new.cells:
            self.in_cluster.setdefault(name, set()).add(key)
        for sums in self._sums_of(new.namespace):
            sums.add_workload(new, 1)
        places = {*new.cells, *(old.cells if old is not None else ())}
        self.count_change("workloads", f"workload:{key}", *(f"in:{name}" for name in places))

    def _forget_workload(self, key: str) -> None:
        """Take a workload out of all sums and indexes but the list of keys."""
        old = self.workloads.pop(key, None)
        if old is None:
            return
        self.by_state[old.state].discard(key)
        for name in old.cells:
            self.in_cluster[name].discard(key)
        for sums in self._sums_of(old.namespace):
            sums.add_workload(old, -1)

    def _drop_workload(self, key: str) -> None:
        self.bindings.pop(key, None)
        if key in self.workloads:
            places = [f"in:{name}" for name in self.workloads[key].cells]
            self._forget_workload(key)
            del self.workload_keys[bisect_left(self.workload_keys, key)]
            self.count_change("workloads", f"workload:{key}", *places)

    def put_move(self, name: str, move: Move | None) -> None:
        old = self.moves.pop(name, None)
        if old is not None:
            self._forget_move(old)
        if move is not None:
            new = self.moves[name] = move_facts(move, self.version + 1)
            insort(self.move_log, (new.started or LONG_AGO, name))
            self.moves_of.setdefault(new.key, set()).add(name)
            if not new.outcome:
                self.going.add(name)
            for sums in self._sums_of(new.namespace):
                sums.add_move(new, 1)
        facts = move_facts(move) if move is not None else old
        if facts is not None:
            self.count_change("moves", f"workload:{facts.key}")

    def _forget_move(self, move: MoveFacts) -> None:
        del self.move_log[bisect_left(self.move_log, (move.started or LONG_AGO, move.id))]
        self.moves_of[move.key].discard(move.id)
        if not self.moves_of[move.key]:
            del self.moves_of[move.key]
        self.going.discard(move.id)
        for sums in self._sums_of(move.namespace):
            sums.add_move(move, -1)

    def put_budget(self, key: str, budget: DisruptionBudget | None) -> None:
        self._put(self.budgets, key, budget_facts(budget, self.version + 1) if budget is not None else None, "budgets")
        self._keep(self.typed_budgets, key, budget)

    def put_rebalance(self, name: str, job: WorkloadRebalancer | None) -> None:
        facts = rebalance_facts(job, self.version + 1) if job is not None else None
        self._put(self.rebalances, name, facts, "rebalances", f"rebalance:{name}")

    def put_policy(self, name: str, policy: DisruptionPolicy | None) -> None:
        if name == "default":
            self.policy = policy
            self.count_change("policy")

    def put_placement(self, key: str, placement: OcmPlacement | None) -> None:
        self._put(self.placements, key, placement, "placements")

    def put_decision(self, key: str, decision: PlacementDecision | None) -> None:
        self._put(self.decisions, key, decision, "placements")

    def put_score(self, key: str, score: AddOnPlacementScore | None) -> None:
        self._put(self.scores, key, score, "scores")

    def put_event(self, name: str, event: EventFacts | None, subject: Subject) -> None:
        """Keep the latest events of what the pages show."""
        known = self.events.setdefault(subject, {})
        known.pop(name, None)
        if event is not None:
            known[name] = event
            if len(known) > MAX_EVENTS:
                del known[min(known, key=lambda one: known[one].at)]
        if not known:
            del self.events[subject]
        self.count_change("events", f"events:{'/'.join(subject)}")

    def _put(self, table: dict[str, Any], key: str, value: Any, *topics: str) -> None:
        self._keep(table, key, value)
        self.count_change(*topics)

    def _keep(self, table: dict[str, Any], key: str, value: Any) -> None:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def _sums_of(self, namespace: str) -> Iterator[Sums]:
        yield self._sums[None]
        if namespace not in self._sums:
            self._sums[namespace] = Sums()
        yield self._sums[namespace]

    # reads

    def sums(self, namespaces: Namespaces) -> Sums:
        """The sums over what is in these namespaces; not to be changed."""
        if namespaces is None:
            return self._sums[None]
        total = Sums()
        for namespace in namespaces:
            if (found := self._sums.get(namespace)) is not None:
                total.add(found)
        return total

    def namespaces(self) -> set[str]:
        """The namespaces that have workloads, moves or budgets."""
        with_sums = {name for name in self._sums if name is not None}
        return (
            with_sums
            | {budget.namespace for budget in self.budgets.values()}
            | {one.partition("/")[0] for one in self.placements}
        )

    def latest_moves(self, namespaces: Namespaces) -> Iterator[MoveFacts]:
        """All moves, the latest first."""
        for _, name in reversed(self.move_log):
            move = self.moves[name]
            if namespaces is None or move.namespace in namespaces:
                yield move

    def moves_in(self, key: str) -> list[MoveFacts]:
        """The moves of one workload, the latest first."""
        found = [self.moves[name] for name in self.moves_of.get(key, ())]
        return sorted(found, key=lambda move: (move.started or LONG_AGO, move.id), reverse=True)

    def replicas_that_left(self, name: str, since: datetime | None, namespaces: Namespaces) -> int:
        """The replicas that moves have taken away from a cluster since a time; its last report had them."""
        if since is None:
            return 0
        total = 0
        for move in self.latest_moves(namespaces):
            if (move.started or LONG_AGO) < since:
                break
            if (
                move.source == name
                and move.outcome not in ("Cancelled", "Reverted")
                and not self._is_lost_in(name, move.key)
            ):
                total += move.replicas
        return total

    def _is_lost_in(self, name: str, key: str) -> bool:
        """Whether a workload still counts replicas in a cluster that does not answer."""
        workload = self.workloads.get(key)
        return workload is not None and name in workload.cells and workload.cells[name].lost > 0

    def cluster_sums(self, name: str, namespaces: Namespaces) -> Counter[str]:
        if namespaces is None:
            return self._sums[None].in_cluster.get(name, Counter())
        return sum_counters(
            sums.in_cluster[name]
            for space in namespaces
            if (sums := self._sums.get(space)) is not None and name in sums.in_cluster
        )


def sum_counters(counters: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def key_of(binding: Binding) -> str:
    resource = binding.spec.resource
    return f"{resource.namespace or CLUSTER_WIDE}/{resource.kind}/{resource.name}"


def without_version(facts: WorkloadFacts) -> tuple[Any, ...]:
    """What makes two facts equal, whenever they were made."""
    return tuple(getattr(facts, name) for name in facts.__struct_fields__ if name != "version_of_model")


def cluster_without_version(facts: ClusterFacts) -> ClusterFacts:
    return msgspec.structs.replace(facts, version_of_model=0)
