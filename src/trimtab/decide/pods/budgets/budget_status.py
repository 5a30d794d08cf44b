"""Computes the status of budgets over pods, and their form for preemption."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from trimtab.api.duration import format_timedelta, parse_duration
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetStatus,
    EffectiveBudget,
    InFlightDisruption,
    RateStatus,
    UnavailableReplicas,
)
from trimtab.api.kinds.native.disruption import PodDisruptionBudget, PodDisruptionBudgetStatus
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Condition
from trimtab.decide.gate import Availability, budget_state, disruptions_within
from trimtab.decide.pods.affinity.affinity_terms import hashable_selector
from trimtab.decide.pods.budgets.budget import (
    DELETION_DEADLINE,
    MAX_IN_FLIGHT_TIME,
    BudgetAssessment,
    BudgetLimit,
    CoveredPod,
    OwnerController,
    UnknownScale,
    assess,
    expected_pods,
)
from trimtab.decide.pods.budgets.pod_budgets import (
    INSUFFICIENT,
    SUFFICIENT,
    SYNC_FAILED,
    GuardingBudget,
    PodBudget,
    budget_snapshot,
    condition_of,
    rate_of,
    selects,
    with_allowed_condition,
)
from trimtab.decide.pods.preemption.preempt import PreemptionBudget

CAPPED_CONDITION = "CappedByPolicy"


class NamespacePods(NamedTuple):
    """The pods of a budget's namespace and their controllers."""

    pods: Sequence[Pod]
    controllers: Mapping[str, OwnerController]


def next_status(
    budget: PodDisruptionBudget,
    pods: Iterable[Pod],
    controllers: Mapping[str, OwnerController],
    now: datetime,
    limit: BudgetLimit | None = None,
) -> PodDisruptionBudgetStatus:
    """Compute the status; equal to the present one when there is nothing to write."""
    spec, status = budget.spec, budget.status
    limit = limit or BudgetLimit(spec.min_available, spec.max_unavailable)
    covered = [covered_pod_of(pod) for pod in pods if selects(budget, pod)]
    found = assess(limit, covered, controllers, status.disrupted_pods, now)
    if isinstance(found, UnknownScale):
        return status.but(
            disruptions_allowed=0, conditions=with_allowed_condition(budget, SYNC_FAILED, now, message=found.message)
        )
    return PodDisruptionBudgetStatus(
        observed_generation=budget.metadata.generation,
        disrupted_pods=found.disrupted,
        disruptions_allowed=found.allowed,
        current_healthy=found.current_healthy,
        desired_healthy=found.desired_healthy,
        expected_pods=found.expected,
        conditions=with_allowed_condition(budget, SUFFICIENT if found.allowed > 0 else INSUFFICIENT, now),
    )


def covered_pod_of(pod: Pod) -> CoveredPod:
    owner = pod.controller
    return CoveredPod(
        name=pod.name,
        ready=pod.is_ready,
        terminating=pod.metadata.deletion_timestamp is not None,
        controller=f"{owner.kind}/{owner.name}" if owner else "",
        controller_uid=owner.uid if owner else "",
    )


def next_own_status(
    budget: DisruptionBudget, namespace_pods: NamespacePods, effective: EffectiveBudget, now: datetime
) -> DisruptionBudgetStatus:
    """The same for a DisruptionBudget: adds rate, disruptions in flight, and voluntary and involuntary loss."""
    limit = BudgetLimit(effective.min_available, effective.max_unavailable)
    pods = [pod for pod in namespace_pods.pods if selects(budget, pod)]
    covered = [covered_pod_of(pod) for pod in pods]
    found = _assess_or_unlimited(limit, covered, namespace_pods.controllers, budget.status.disrupted_pods, now)
    if isinstance(found, UnknownScale):
        conditions = with_allowed_condition(budget, SYNC_FAILED, now, message=found.message)
        return budget.status.but(disruptions_allowed=0, allowed_now=0, conditions=conditions)
    desired = desired_pods(covered, namespace_pods.controllers)
    in_flight = tuple(
        entry for entry in budget.status.in_flight if _is_in_flight(entry, pods, desired > found.current_healthy, now)
    )
    status = budget.status.but(
        observed_generation=budget.metadata.generation,
        effective=effective,
        disrupted_pods=found.disrupted,
        disruptions_allowed=found.allowed,
        current_healthy=found.current_healthy,
        desired_healthy=found.desired_healthy,
        expected_pods=found.expected,
        desired=desired,
        available=found.current_healthy,
        unavailable=count_down_pods(pods, found, in_flight, desired),
        in_flight=in_flight,
        rate=_rate_status(budget, effective, now),
    )
    return _with_allowed_now(budget.but(status=status), now)


def _assess_or_unlimited(
    limit: BudgetLimit,
    covered: Sequence[CoveredPod],
    controllers: Mapping[str, OwnerController],
    disrupted: Mapping[str, datetime],
    now: datetime,
) -> BudgetAssessment | UnknownScale:
    """As for a PodDisruptionBudget; with only a rate there is no minimum, and every healthy pod may be disrupted."""
    if limit != BudgetLimit():
        return assess(limit, covered, controllers, disrupted, now)
    return assess(BudgetLimit(min_available=0), covered, controllers, disrupted, now)


def desired_pods(covered: Sequence[CoveredPod], controllers: Mapping[str, OwnerController]) -> int:
    """Return how many pods there should be: the replicas of their owners, and the pods without an owner."""
    found = expected_pods(covered, controllers)
    bare = sum(not pod.controller_uid for pod in covered)
    return len(covered) if isinstance(found, UnknownScale) else found + bare


def _is_in_flight(entry: InFlightDisruption, pods: Iterable[Pod], has_missing_pods: bool, now: datetime) -> bool:
    """A disruption is over when its pod is gone and as many pods as desired are healthy again."""
    since = entry.since or now
    if now - since >= MAX_IN_FLIGHT_TIME:
        return False
    pod = next((one for one in pods if one.name == entry.object), None)
    if pod is None:
        return has_missing_pods
    created = pod.metadata.creation_timestamp
    if created is not None and created > since:
        return has_missing_pods
    return pod.metadata.deletion_timestamp is not None or now - since < DELETION_DEADLINE


def count_down_pods(
    pods: Iterable[Pod], assessment: BudgetAssessment, in_flight: Sequence[InFlightDisruption], desired: int
) -> UnavailableReplicas:
    """Count pods that are unhealthy or missing, voluntary disruptions and failures separately."""
    unhealthy = [pod for pod in pods if not pod.is_ready or pod.metadata.deletion_timestamp is not None]
    voluntary_unhealthy = sum(_is_disruption_target(pod) or pod.name in assessment.disrupted for pod in unhealthy)
    granted = sum(pod.name in assessment.disrupted for pod in pods if pod not in unhealthy)
    present = {pod.name for pod in pods}
    missing = max(0, desired - len(present))
    lost = min(missing, sum(entry.object not in present for entry in in_flight))
    arriving = min(
        len(unhealthy) - voluntary_unhealthy, max(0, sum(entry.object not in present for entry in in_flight) - lost)
    )
    voluntary = voluntary_unhealthy + granted + lost + arriving
    return UnavailableReplicas(voluntary=voluntary, involuntary=max(0, len(unhealthy) + granted + missing - voluntary))


def _is_disruption_target(pod: Pod) -> bool:
    return any(one.type == "DisruptionTarget" and one.status == "True" for one in pod.status.conditions)


def _rate_status(budget: DisruptionBudget, effective: EffectiveBudget, now: datetime) -> RateStatus | None:
    if effective.rate is None:
        return None
    recent = budget.status.rate.recent if budget.status.rate is not None else ()
    kept = disruptions_within(recent, parse_duration(effective.rate.period), now)
    return RateStatus(in_window=len(kept), limit=effective.rate.disruptions, recent=kept)


def _with_allowed_now(budget: DisruptionBudget, now: datetime) -> DisruptionBudgetStatus:
    """Add `allowedNow`, the time when it increases by itself, and the conditions that explain it."""
    status = budget.status
    rate = rate_of(budget)
    state = budget_state(budget, Availability(), now)
    limits = [status.disruptions_allowed]
    limits += [limit for limit in (state.concurrent, rate.remaining(now) if rate else None) if limit is not None]
    waits_until = [state.next_at] if state.next_at else []
    if rate is not None and rate.remaining(now) == 0:
        waits_until.append(rate.next_allowed_at(now))
    allowed = min(limits) if state.is_open else 0
    status = status.but(allowed_now=allowed, next_allowed_at=max(waits_until, default=None))
    budget = budget.but(status=status)
    conditions = with_allowed_condition(
        budget, SUFFICIENT if allowed > 0 else INSUFFICIENT, now, message=_allowance_message(budget, now)
    )
    return status.but(
        conditions=with_capped_condition(budget.but(status=status.but(conditions=conditions)), status.effective, now)
    )


def _allowance_message(budget: DisruptionBudget, now: datetime) -> str:
    status = budget.status
    snapshot = budget_snapshot(GuardingBudget(budget), now)
    parts = [f"{status.current_healthy} pods are healthy, {status.desired_healthy} must be"]
    if snapshot.rate is not None:
        parts.append(
            f"{snapshot.rate.count_in_window(now)} of {snapshot.rate.disruptions} disruptions in {format_timedelta(snapshot.rate.period)}"
        )
    return "; ".join([*parts, *([snapshot.closed_reason] if snapshot.closed_reason else [])])


def with_capped_condition(budget: PodBudget, effective: EffectiveBudget | None, now: datetime) -> tuple[Condition, ...]:
    """Return the budget's conditions with CappedByPolicy when the policy allows more than the budget."""
    conditions = budget.status.conditions
    others = tuple(one for one in conditions if one.type != CAPPED_CONDITION)
    if effective is None or not effective.source:
        return others
    before = condition_of(conditions, CAPPED_CONDITION)
    condition = Condition(
        type=CAPPED_CONDITION,
        status="True",
        reason="StricterThanPolicy",
        message=f"the floors of {effective.source} are more lenient than this budget; effective: {_format_limits(effective)}",
        last_transition_time=before.last_transition_time if before.status == "True" else now.replace(microsecond=0),
        observed_generation=budget.metadata.generation,
    )
    return (*others, condition)


def _format_limits(effective: EffectiveBudget) -> str:
    limits = {"minAvailable": effective.min_available, "maxUnavailable": effective.max_unavailable}
    parts = [f"{name} {value}" for name, value in limits.items() if value is not None]
    parts += [f"{effective.rate.disruptions} in {effective.rate.period}"] if effective.rate is not None else []
    return ", ".join(parts)


def preemption_budget(budget: PodBudget, now: datetime | None = None) -> PreemptionBudget:
    """Convert the budget for preemption; with a time, as an eviction at that time would be evaluated."""
    result = PreemptionBudget(
        namespace=budget.metadata.namespace,
        selector=hashable_selector(budget.spec.selector, {}),
        allowed=budget.status.disruptions_allowed,
        disrupted=frozenset(budget.status.disrupted_pods),
    )
    if now is None:
        return result
    snapshot = budget_snapshot(GuardingBudget(budget), now)
    concurrent = budget_state(budget, Availability(), now).concurrent if isinstance(budget, DisruptionBudget) else None
    limits = [concurrent, snapshot.rate.remaining(now) if snapshot.rate is not None else None]
    allowed = min([snapshot.disruptions_allowed, *(limit for limit in limits if limit is not None)])
    stale = snapshot.observed_generation < snapshot.generation
    return result._replace(
        allowed=0 if snapshot.closed_reason or stale else allowed,
        exact=True,
        protects_unready=not snapshot.exempts_unhealthy(),
    )
