"""One consistent snapshot of a cluster for one round: nodes, pods, owners, budgets, metrics and history."""

from datetime import datetime, timedelta
from functools import cached_property

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.selector_groups import SelectorGroups
from trimtab.decide.pods.avoid_list import AvoidEntry, entries_of, is_avoided_by
from trimtab.decide.pods.budgets.budget_status import preemption_budget
from trimtab.decide.pods.budgets.component_quota import charge_quota
from trimtab.decide.pods.budgets.eviction import BudgetSnapshot
from trimtab.decide.pods.budgets.pod_budgets import (
    DisruptionCause,
    GuardingBudget,
    budget_snapshot,
    guards_pod,
)
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.preemption.recent_disruptions import RecentDisruptions, recent_disruptions_of
from trimtab.decide.pods.schedule import DEFAULT_SCHEDULER_PROFILE, SchedulerProfile
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import (
    ReschedulingHistory,
    RestartRecord,
)
from trimtab.decide.rescheduling.history_update import HistoryUpdate
from trimtab.decide.rescheduling.pod_owners import PodOwners
from trimtab.decide.rescheduling.score_gain import MOST_ALLOCATED_PROFILE, TrialFleet
from trimtab.decide.rescheduling.settings import ReschedulerSettings

MOVE_REQUEST = DisruptionCause("rescheduler", "Reschedule")
PENDING_THRESHOLD = timedelta(seconds=30)


class ReschedulingSnapshot:
    """Does not change while objectives read it."""

    def __init__(
        self, objects: ClusterObjects, settings: ReschedulerSettings, history: ReschedulingHistory, now: datetime
    ) -> None:
        self.objects, self.settings, self.now = objects, settings, now
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
        self.owners = PodOwners(objects, self.cluster_view)
        update = HistoryUpdate(objects, settings, self.cluster_view, self.fleet.nodes, self.owners, now)
        self.history = update.apply_to(history)

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

    def recent_disruptions(self, pod: Pod) -> RecentDisruptions:
        """The recent disruptions of the pod's owner, whatever caused them."""
        owner = self.owners.of(pod)
        if owner.uid not in self._disruptions_by_owner:
            owner_pods = [one for one in self.owners.siblings_of(pod) if not one.is_terminal]
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
        uids = {ref.uid, self.owners.of(pod).uid}
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

    # restarts

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
            for pod in self.owners.pods_of(owner)
            if pod.status.phase == "Failed" and pod.status.reason == "Evicted" and pod.spec.node_name == node
        ]
        recent = [pod for pod in evicted if self.now - (pod.status.start_time or self.now) <= within]
        return sum(one.times for one in falls if self._is_recent(one, within)) + len(recent)

    def _is_recent(self, restart: RestartRecord, within: timedelta) -> bool:
        return self.now - (restart.at or self.now) <= within


def _selector_groups(objects: ClusterObjects) -> SelectorGroups:
    services = {namespace: list(found.values()) for namespace, found in objects.services.items()}
    return SelectorGroups(
        services, {one.metadata.uid: one.spec.selector for one in objects.sets if one.spec.selector is not None}
    )
