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
from trimtab.decide.pods.affinity.selector_groups import SelectorGroups
from trimtab.decide.pods.avoid_list import AvoidEntry, entries_of, is_avoided_by
from trimtab.decide.pods.budgets.budget_status import preemption_budget
from trimtab.decide.pods.budgets.component_quota import charge_quota
from trimtab.decide.pods.budgets.eviction import BudgetSnapshot
from trimtab.decide.pods.budgets.pod_budgets import (
    DisruptionCause,
    GuardingBudget,
    PodBudget,
    budget_snapshot,
    guards_pod,
)
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.pod_traits import REQUEST_EVICT_ONLY_ANNOTATION
from trimtab.decide.pods.preemption.recent_disruptions import RecentDisruptions, recent_disruptions_of
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, SchedulerProfile
from trimtab.decide.rescheduling.history import (
    DONE,
    LANDED_BACK,
    PENDING,
    PENDING_TIMEOUT,
    MoveRecord,
    NodePressure,
    OwnerScale,
    ReschedulingHistory,
    RestartRecord,
)
from trimtab.decide.rescheduling.score_gain import MOST_ALLOCATED_PROFILE, TrialFleet
from trimtab.decide.rescheduling.settings import ReschedulerSettings

MOVE_REQUEST = DisruptionCause("rescheduler", "Reschedule")
PENDING_THRESHOLD = timedelta(seconds=30)
RESTART_HISTORY_TTL, YOUNG_POD_AGE = timedelta(hours=1), timedelta(minutes=30)
MAX_RESTART_RECORDS = 5000
EVACUATION_TIMEOUT = timedelta(minutes=10)
"""How long another component may take to move a pod after it was requested."""
CPU_PRESSURE = "CPUPressure"
"""The condition of nodes on which containers wait for CPU, where a component reports it."""
CPU_SATURATION_PERCENT = 95
"""CPU usage in percent from which a node counts as under pressure, where no component reports it."""
ReplicaController = ReplicaSet | StatefulSet


class PodOwner(NamedTuple):
    """The top-level owner of pods: the Deployment rather than its ReplicaSets."""

    uid: str
    name: str
    replicas: int
    """The desired number; 0 when it is not known."""
    is_rolling_out: bool
    """A rollout is in progress, or the controller has not observed the latest generation."""


class ClusterObjects(NamedTuple):
    """The objects that a snapshot is built from."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    deployments: Sequence[Deployment] = ()
    sets: Sequence[ReplicaController] = ()
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
    other_owners: Sequence[PodOwner] = ()
    """Other owners of pods: ReplicationControllers, and custom resources with a scale subresource."""
    spreads_by_default: bool = False
    """The scheduler of this cluster applies default spread constraints, as kube-scheduler does."""
    honours_avoid_lists: bool = True
    """The scheduler of this cluster honours avoid lists."""
    rejects_overlap: bool = False
    """The API server refuses to evict pods with several budgets."""
    recent_evictions: Mapping[str, Mapping[str, datetime]] = {}
    """Recently evicted pods by owner, with the time, as far as events report it."""
    measures: UsageMetrics | None = None
    """None when there is no metrics source; objectives that need it are off."""


class ReschedulingSnapshot:
    """Does not change while objectives read it."""

    def __init__(
        self, objects: ClusterObjects, settings: ReschedulerSettings, history: ReschedulingHistory, now: datetime
    ) -> None:
        self.objects, self.settings, self.now = objects, settings, now
        self._pods_by_owner: dict[str, list[Pod]] = {}
        self._disruptions_by_owner: dict[str, RecentDisruptions] = {}
        self.cluster_view = ClusterView.of(
            objects.nodes,
            objects.pods,
            now=now,
            namespaces=objects.namespaces,
            budgets=tuple(preemption_budget(one) for one in objects.budgets if isinstance(one, PodDisruptionBudget)),
            storage_classes=objects.storage_classes,
            priorities=objects.priorities,
        )
        self.fleet = (
            self.cluster_view.fleet.with_groups(_selector_groups(objects))
            if objects.spreads_by_default
            else self.cluster_view.fleet
        )
        self.history = self._update_history(history)

    @cached_property
    def running_pods(self) -> list[PodInfo]:
        """Every pod with a node that has not finished, by namespace and name."""
        return sorted((one for node_info in self.fleet.nodes for one in node_info.pods), key=lambda one: one.key)

    @cached_property
    def pending_pods(self) -> list[PodInfo]:
        """Pods that have been pending for long."""
        found = []
        for one in self.cluster_view.pending:
            since = one.pod.metadata.creation_timestamp
            gated = bool(one.pod.spec.scheduling_gates)  # not schedulable yet, so it competes for no capacity
            if not one.is_terminating and not gated and since is not None and self.now - since >= PENDING_THRESHOLD:
                found.append(one)
        return sorted(found, key=lambda one: (-one.priority, one.key))

    @cached_property
    def trial(self) -> TrialFleet:
        """A shared trial fleet for one move at a time; code that removes a pod puts it back."""
        return self.new_trial()

    def new_trial(self) -> TrialFleet:
        """A separate trial fleet."""
        return TrialFleet(self.fleet, self.scheduler_profile)

    @property
    def scheduler_profile(self) -> SchedulerProfile:
        """The profile of the cluster's scheduler."""
        return MOST_ALLOCATED_PROFILE if self.settings.packing else DEFAULT_SCHEDULER_PROFILE

    # owners

    @cached_property
    def _owners(self) -> dict[str, PodOwner]:
        """By the uid of the controller that pods reference."""
        tops = {one.metadata.uid: _owner_of(one) for one in self.objects.deployments}
        found = {one.uid: one for one in self.objects.other_owners}
        tops |= found
        for one in self.objects.sets:
            above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
            found[one.metadata.uid] = tops.get(above) or _owner_of(one)
        return found

    def owner(self, pod: Pod) -> PodOwner:
        ref = pod.controller
        if ref is None:
            return PodOwner("", pod.name, 1, is_rolling_out=False)
        return self._owners.get(ref.uid) or PodOwner(ref.uid, f"{ref.kind}/{ref.name}", 0, is_rolling_out=False)

    def load_owner_pods(self, owners: Iterable[str]) -> None:
        """Find the pods of these owners in one pass; a list for every owner of a large cluster costs too much."""
        wanted = {uid for uid in owners if uid and uid not in self._pods_by_owner}
        if not wanted:
            return
        self._pods_by_owner.update((uid, []) for uid in wanted)
        below = {uid: owner.uid for uid, owner in self._owners.items() if owner.uid in wanted}
        lists = {uid: self._pods_by_owner[below.get(uid, uid)] for uid in (*wanted, *below)}
        for one in self.cluster_view.all_pods:
            if (owner_pods := lists.get(one.traits.controller_uid)) is not None:
                owner_pods.append(one.pod)

    def pods_of_owner(self, owner: str) -> list[Pod]:
        """Every pod of this owner, whatever its phase."""
        self.load_owner_pods([owner])
        return self._pods_by_owner.get(owner, [])

    def sibling_pods(self, pod: Pod) -> list[Pod]:
        return self.pods_of_owner(self.owner(pod).uid) or [pod]

    def recent_disruptions(self, pod: Pod) -> RecentDisruptions:
        """The recent disruptions of the pod's owner, whatever caused them."""
        owner = self.owner(pod)
        if owner.uid not in self._disruptions_by_owner:
            owner_pods = [one for one in self.sibling_pods(pod) if not one.is_terminal]
            ends = {move.pod: move.at for move in self.history.moves_of(owner.uid) if move.at is not None}
            wanted = owner.replicas or sum(one.metadata.deletion_timestamp is None for one in owner_pods)
            condition = self.objects.recent_evictions.get(owner.uid, {})
            self._disruptions_by_owner[owner.uid] = recent_disruptions_of(
                owner.uid, wanted, owner_pods, {**condition, **ends}, self.now
            )
        return self._disruptions_by_owner[owner.uid]

    def service_name(self, pod: PodInfo) -> str:
        """The services that select a pod, as one name: its dependents, whatever its owner."""
        selectors = self.objects.services.get(pod.namespace, {}).items()
        names = [name for name, labels in selectors if labels and labels.items() <= pod.labels.items()]
        return f"{pod.namespace}/{','.join(sorted(names))}" if names else ""

    # nodes

    @cached_property
    def excluded_nodes(self) -> frozenset[str]:
        """Nodes that must not be targets: cordoned, not ready, or about to be removed by others."""
        taints, selector = set(self.settings.avoided_taints), self.settings.exclude.node_selector
        return frozenset(
            node_info.name
            for node_info in self.fleet.nodes
            if node_info.node.spec.unschedulable
            or any(one.type == "Ready" and one.status != "True" for one in node_info.node.status.conditions)
            or any(taint.key in taints for taint in node_info.node.spec.taints)
            or (selector is not None and selector.matches(node_info.labels))
        )

    @cached_property
    def _avoid_lists(self) -> list[tuple[str, tuple[AvoidEntry, ...]]]:
        """Nodes that have an avoid list."""
        found = [(node_info.name, entries_of(node_info.node.metadata.annotations)) for node_info in self.fleet.nodes]
        return [(name, entries) for name, entries in found if entries]

    def avoided_nodes(self, pod: Pod) -> list[str]:
        ref = pod.controller
        if ref is None:
            return []
        uids = {ref.uid, self.owner(pod).uid}
        return [name for name, entries in self._avoid_lists if is_avoided_by(entries, uids, self.now)]

    # budgets

    def budgets_of(self, pod: Pod) -> list[BudgetSnapshot]:
        return [
            budget_snapshot(GuardingBudget(budget), self.now)
            for budget in self.objects.budgets
            if guards_pod(budget, pod, MOVE_REQUEST)
        ]

    @cached_property
    def quota(self) -> DisruptionPolicy:
        """What the rescheduler may still disrupt: as stored in the cluster, else from the history."""
        found = self.objects.policy or DisruptionPolicy()
        if found.status.components:
            return found
        for move in self.history.moves:
            namespace, _, name = move.name.partition("/")
            if move.at is not None and not move.free:
                found = charge_quota(found, MOVE_REQUEST, (namespace, name), self.pods_in_flight.__contains__, move.at)
        return found

    @cached_property
    def pods_in_flight(self) -> frozenset[str]:
        """Pods, by namespace and name, that are terminating, or that were moved and are not yet replaced."""
        ending = {"/".join(one.key) for one in self.cluster_view.all_pods if one.is_terminating}
        return frozenset(ending | {move.name for move in self.history.moves if not move.outcome and not move.free})

    # history

    def _update_history(self, history: ReschedulingHistory) -> ReschedulingHistory:
        """The history up to now: outcomes of moves, times of scaling, durations of node pressure."""
        self.load_owner_pods(move.owner for move in history.moves if not move.outcome)
        taken: set[str] = set()
        moves = tuple(move for one in history.moves if (move := self._update_move(one, taken)) is not None)
        return history.but(
            moves=moves,
            scales=self._owner_scales(history),
            pressures=self._node_pressures(history),
            falls=self._restart_records(history) if self._uses_poor_service else (),
        )

    @property
    def _uses_poor_service(self) -> bool:
        return any(one.name == "PoorService" and one.enabled for one in self.settings.objectives)

    def _restart_records(self, history: ReschedulingHistory) -> tuple[RestartRecord, ...]:
        """Restarts when they are observed: the API server reports how many there were, not when."""
        before: dict[str, int] = {}
        for fall in history.falls:
            before[fall.pod] = max(before.get(fall.pod, 0), fall.restarts)
        removed = set(before)
        found = [one for one in history.falls if self.now - (one.at or self.now) <= RESTART_HISTORY_TTL]
        for one in self.cluster_view.all_pods:
            restarts = restart_count(one.pod)
            removed.discard(one.pod.metadata.uid)
            if restarts and restarts != before.get(one.pod.metadata.uid, 0):
                found.append(self._restart_record(one.pod, restarts, before.get(one.pod.metadata.uid)))
        return tuple(one for one in found if one.pod not in removed)[-MAX_RESTART_RECORDS:]

    def _restart_record(self, pod: Pod, restarts: int, before: int | None) -> RestartRecord:
        """For a pod that is observed for the first time only restarts that must be recent count."""
        if before is None:
            started = pod.status.start_time
            young = started is not None and self.now - started <= YOUNG_POD_AGE
            before = 0 if young else max(0, restarts - 1)
        return RestartRecord(
            pod=pod.metadata.uid,
            owner=self.owner(pod).uid,
            node=pod.spec.node_name,
            times=max(0, restarts - before),
            killed=was_oom_killed(pod),
            at=last_termination(pod) or self.now,
            restarts=restarts,
        )

    def restarts_within(self, pod: Pod, within: timedelta) -> int:
        """How often a pod was restarted in this period."""
        return sum(
            one.times for one in self.history.falls if one.pod == pod.metadata.uid and self._is_recent(one, within)
        )

    def memory_kills(self, owner: str, node: str, within: timedelta) -> int:
        """How often pods of an owner were killed or evicted on a node because of memory in this period."""
        falls = [one for one in self.history.falls if one.owner == owner and one.node == node and one.killed]
        evicted = [
            pod
            for pod in self.pods_of_owner(owner)
            if pod.status.phase == "Failed" and pod.status.reason == "Evicted" and pod.spec.node_name == node
        ]
        recent = [pod for pod in evicted if self.now - (pod.status.start_time or self.now) <= within]
        return sum(one.times for one in falls if self._is_recent(one, within)) + len(recent)

    def _is_recent(self, restart: RestartRecord, within: timedelta) -> bool:
        return self.now - (restart.at or self.now) <= within

    def _update_move(self, move: MoveRecord, assigned: set[str]) -> MoveRecord | None:
        """The outcome of a move; None when it was recorded and never made."""
        if move.outcome or move.at is None:
            return move
        still = next((pod for pod in self.pods_of_owner(move.owner) if pod.metadata.uid == move.pod), None)
        if still is not None:
            patience = (
                EVACUATION_TIMEOUT if REQUEST_EVICT_ONLY_ANNOTATION in still.metadata.annotations else PENDING_TIMEOUT
            )
            ends = still.metadata.deletion_timestamp is not None or self.now - move.at < patience
            return move if ends else None
        replacements = [
            pod
            for pod in self.pods_of_owner(move.owner)
            if (pod.metadata.creation_timestamp or move.at) >= move.at.replace(microsecond=0)
            and pod.metadata.uid != move.pod
            and pod.metadata.uid not in assigned
        ]
        settled = sorted((pod for pod in replacements if pod.spec.node_name), key=lambda pod: pod.name)
        if settled:
            replacement = settled[0]
            assigned.add(replacement.metadata.uid)
            node = replacement.spec.node_name
            return move.but(outcome=LANDED_BACK if node == move.source else DONE, target=node)
        if self.now - move.at >= PENDING_TIMEOUT:
            return move.but(outcome=PENDING if replacements else DONE)
        return move

    def _owner_scales(self, history: ReschedulingHistory) -> tuple[OwnerScale, ...]:
        before = {one.owner: one for one in history.scales}
        found = []
        for owner in sorted(set(self._owners.values())):
            known = before.get(owner.uid)
            same = known is not None and known.replicas == owner.replicas
            since = known.since if same and known is not None else (self.now if known is not None else None)
            found.append(OwnerScale(owner=owner.uid, replicas=owner.replicas, since=since))
        return tuple(found)

    def _node_pressures(self, history: ReschedulingHistory) -> tuple[NodePressure, ...]:
        """Nodes under CPU pressure: by condition, or by measured usage; none without metrics."""
        if self.objects.measures is None:
            return ()
        found = []
        for node_info in self.fleet.nodes:
            condition = next((one for one in node_info.node.status.conditions if one.type == CPU_PRESSURE), None)
            used = self.objects.measures.nodes.get(node_info.name, {}).get("cpu", 0)
            size = node_info.allocatable.get("cpu", 0)
            if condition is not None:
                if condition.status == "True":
                    found.append(
                        NodePressure(node=node_info.name, since=condition.last_transition_time or self.now, told=True)
                    )
            elif size and 100 * used >= CPU_SATURATION_PERCENT * size:
                found.append(
                    NodePressure(node=node_info.name, since=history.pressure_since(node_info.name) or self.now)
                )
        return tuple(found)


def restart_count(pod: Pod) -> int:
    return max((one.restart_count for one in pod.status.container_statuses), default=0)


def was_oom_killed(pod: Pod) -> bool:
    """Whether a container last ended because of memory."""
    ends = [end for one in pod.status.container_statuses for end in (one.last_state.terminated, one.state.terminated)]
    return any(end is not None and end.reason == "OOMKilled" for end in ends)


def last_termination(pod: Pod) -> datetime | None:
    ends = [one.last_state.terminated for one in pod.status.container_statuses]
    return max((end.finished_at for end in ends if end is not None and end.finished_at is not None), default=None)


def _selector_groups(objects: ClusterObjects) -> SelectorGroups:
    services = {namespace: list(found.values()) for namespace, found in objects.services.items()}
    return SelectorGroups(
        services, {one.metadata.uid: one.spec.selector for one in objects.sets if one.spec.selector is not None}
    )


def _owner_of(top: Deployment | ReplicaController) -> PodOwner:
    wanted = 1 if top.spec.replicas is None else top.spec.replicas
    rolling = top.status.observed_generation < top.metadata.generation
    if isinstance(top, Deployment):
        rolling = rolling or top.status.updated_replicas != wanted
    elif isinstance(top, StatefulSet):
        rolling = rolling or bool(
            top.status.update_revision and top.status.update_revision != top.status.current_revision
        )
    return PodOwner(top.metadata.uid, f"{type(top).__name__}/{top.name}", wanted, rolling)
