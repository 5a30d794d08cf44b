"""Decides for propagation policies: affinity groups in order, and the result for a binding.

load()                                              # trimtab.plugins, once
fleet = Fleet.of(clusters, now=now)                 # later: fleet.change([cluster]), fleet.at(now)
fleet = fleet.with_external_values("AddOnPlacementScore/<resource>", {cluster: ExternalValue({score: value}, until)})
decisions, fleet = decide_all([placement_request_of(binding) for binding in bindings], fleet, profile)
decisions[0].targets, decisions[0].condition, explain(decisions[0])
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import TargetCluster, TargetComponent
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.decide.fleet import Fleet
from trimtab.decide.observed_attempt import ObservedAttempt
from trimtab.decide.pipeline import NO_FIT, QUOTA_EXCEEDED, UNSCHEDULABLE, Failure, PlacementAttempt
from trimtab.decide.request import PlacementRequest, QuotaUse
from trimtab.decide.shares import ReplicaShares
from trimtab.decide.step_observer import StepObserver

T = TypeVar("T")
REASONS = {NO_FIT: "NoClusterFit", UNSCHEDULABLE: "Unschedulable", QUOTA_EXCEEDED: "QuotaExceeded"}
SUCCESS = "Binding has been scheduled successfully."
RESERVATION_TTL = timedelta(seconds=30)
"""Longer than a cluster takes to report new replicas: status is collected every 10 seconds."""
UNHEALTHY_RESERVATION_TTL = timedelta(minutes=5)
"""The same for reservations that last until the workload is healthy, as in Karmada."""


class TriedGroup(NamedTuple):
    """An affinity group that was tried (the name is empty when there are none), and why it was not selected."""

    affinity_name: str
    failure: Failure | None


class BindingDecision(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The clusters of a binding, or why there are none. `decide.explain` explains how it was made."""

    request: PlacementRequest
    profile: Profile
    shares: ReplicaShares | None
    """By column of the fleet; None when it failed."""
    affinity_name: str
    """The affinity group to record; the old one when it failed."""
    tried_groups: tuple[TriedGroup, ...] = ()
    """The affinity groups that were tried, in order; empty when there are none."""
    failure: Failure | None = None
    fleet: Fleet[Cluster]
    """The fleet on which it was decided."""
    group: int = -1
    """The index of the selected affinity group, else of the last one tried."""

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def clusters(self) -> list[tuple[str, int]]:
        """Names and replicas, in name order; empty when it failed. Computed on each access."""
        return [] if self.shares is None else self.shares.by_name(self.fleet)

    @property
    def targets(self) -> tuple[TargetCluster, ...]:
        """The value for `spec.clusters`."""
        components = self.components
        return tuple([TargetCluster(name=name, replicas=n, components=components) for name, n in self.clusters])

    @property
    def components(self) -> tuple[TargetComponent, ...]:
        """The components of each target, where whole sets of several components were placed."""
        if not self.ok or not self.request.in_component_sets or len(self.request.components) < 2:
            return ()
        return tuple(TargetComponent(name=c.name, replicas=c.replicas) for c in self.request.components)

    @property
    def condition(self) -> tuple[str, str, str]:
        """Status, reason and message of the condition `Scheduled`."""
        if self.failure is None:
            return "True", "Success", SUCCESS
        return "False", REASONS.get(self.failure.kind, "SchedulerError"), self.failure.message

    @property
    def should_clear(self) -> bool:
        """Whether the existing placement is removed because no cluster fits any more."""
        return (
            self.failure is not None
            and self.failure.kind == NO_FIT
            and not self.profile.keep_placement_when_unschedulable
        )

    @property
    def should_retry(self) -> bool:
        return self.failure is not None and not self.should_clear


def decide(
    request: PlacementRequest,
    fleet: Fleet[Cluster],
    profile: Profile = TRIMTAB,
    observer: StepObserver | None = None,
) -> BindingDecision:
    """Decide where this request goes in this fleet. Pure: equal inputs give equal results."""
    if request.fresh and profile.fresh_ignores_current_clusters:
        request = msgspec.structs.replace(request, prefers_placed=False)
    if request.placement.groups:
        return _decide_by_groups(request, fleet, profile, observer)
    result = _attempt(request, fleet, profile, observer).result
    placed, failure = (None, result) if isinstance(result, Failure) else (result, None)
    return BindingDecision(
        request=request,
        profile=profile,
        fleet=fleet,
        shares=placed,
        affinity_name=request.observed_affinity,
        failure=failure,
    )


def _attempt(
    request: PlacementRequest, fleet: Fleet[Cluster], profile: Profile, observer: StepObserver | None
) -> PlacementAttempt:
    if observer is None:
        return PlacementAttempt(request, fleet, profile)
    return ObservedAttempt(request, fleet, profile, observer)


def _decide_by_groups(
    request: PlacementRequest, fleet: Fleet[Cluster], profile: Profile, observer: StepObserver | None
) -> BindingDecision:
    """The first group that fits; if none does, the failure of the first one tried, which the policy prefers most."""
    tried: list[TriedGroup] = []
    placed: ReplicaShares | None = None
    position = -1
    for position in group_order(request, wrap=profile.wrap_affinity_groups):
        result = _attempt(msgspec.structs.replace(request, group=position), fleet, profile, observer).result
        name = request.placement.groups[position].affinity_name
        if isinstance(result, ReplicaShares):
            tried.append(TriedGroup(name, None))
            placed = result
            break
        tried.append(TriedGroup(name, result))
    return BindingDecision(
        request=request,
        profile=profile,
        fleet=fleet,
        shares=placed,
        affinity_name=request.observed_affinity if placed is None else tried[-1].affinity_name,
        tried_groups=tuple(tried),
        failure=None if placed is not None else tried[0].failure,
        group=position,
    )


def group_order(request: PlacementRequest, *, wrap: bool) -> list[int]:
    """From the group in use onwards; then, if `wrap`, the earlier ones. A fresh decision starts with the first."""
    names = [term.affinity_name for term in request.placement.groups]
    start = names.index(request.observed_affinity) if request.observed_affinity in names and not request.fresh else 0
    return [*range(start, len(names)), *(range(start) if wrap else ())]


def decide_all(
    requests: Sequence[PlacementRequest],
    fleet: Fleet[Cluster],
    profile: Profile = TRIMTAB,
    observer: StepObserver | None = None,
) -> tuple[list[BindingDecision], Fleet[Cluster]]:
    """Decide a batch; returns the decisions and the fleet with their reservations, if the profile reserves capacity.

    Decisions are returned in the order of the requests. With reservations, higher priority is decided first, then input
    order. Without reservations the order does not matter, and requests of one policy are decided together.
    """
    decisions: dict[int, BindingDecision] = {}
    if not profile.reserve_capacity and not any(request.feature_gates.overcommit_protection for request in requests):
        for position in sorted(range(len(requests)), key=lambda position: id(requests[position].placement)):
            decisions[position] = decide(requests[position], fleet, profile, observer)
    else:
        for position in sorted(range(len(requests)), key=lambda position: -requests[position].priority):
            decision = decisions[position] = decide(requests[position], fleet, profile, observer)
            fleet = reserve_decision(decision, fleet)
    return [decisions[position] for position in range(len(requests))], fleet


def reserve_decision(decision: BindingDecision, fleet: Fleet[Cluster]) -> Fleet[Cluster]:
    """The fleet in which the new capacity of this decision is reserved; existing replicas are already in use."""
    request, shares = decision.request, decision.shares
    if shares is None or not (request.replicas or request.components):
        return fleet
    had = {fleet.index[name]: replicas for name, replicas in request.placed if name in fleet.index}
    return _reserve(request.footprint(), _gains(request, shares.by_column(), had), fleet)


def added_replicas(decision: BindingDecision) -> tuple[tuple[str, int], ...]:
    """The replicas that the decision adds, by cluster; of a workload with components, the sets of them."""
    return tuple(_gains(decision.request, dict(decision.clusters), dict(decision.request.placed)).items())


def _gains(request: PlacementRequest, after: Mapping[T, int], before: Mapping[T, int]) -> dict[T, int]:
    if request.components:
        return {cluster: 1 for cluster in after if cluster not in before}
    return {cluster: n - before.get(cluster, 0) for cluster, n in after.items() if n > before.get(cluster, 0)}


def _reserve(
    footprint: Mapping[str | QuotaUse, int], gains: Mapping[int, int], fleet: Fleet[Cluster]
) -> Fleet[Cluster]:
    if not gains:
        return fleet
    columns, replicas = np.array(list(gains)), np.array(list(gains.values()))
    return fleet.reserve(columns, {key: amount * replicas for key, amount in footprint.items()})


def reserve_moves(
    moves: Iterable[tuple[PlacementRequest, Sequence[tuple[str, int]]]], fleet: Fleet[Cluster], *, release: bool = False
) -> Fleet[Cluster]:
    """The fleet with reservations for moves in flight: each request, and its replicas still to arrive per cluster.

    `release` takes reservations that the fleet has away again.
    """
    gains: dict[tuple[tuple[str | QuotaUse, int], ...], dict[int, int]] = {}
    for request, arriving in moves:  # workloads of equal size are summed into one array
        gained = gains.setdefault(tuple(request.footprint().items()), {})
        for name, n in arriving:
            if (column := fleet.index.get(name)) is not None:
                gained[column] = gained.get(column, 0) + n
    for footprint, gained in gains.items():
        sign = -1 if release else 1
        fleet = _reserve({key: sign * amount for key, amount in footprint}, gained, fleet)
    return fleet
