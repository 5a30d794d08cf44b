"""One interface for PodDisruptionBudgets and DisruptionBudgets: which guard a pod, and how evictions charge them."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec

from trimtab.api.duration import is_duration, parse_duration
from trimtab.api.kinds import disruption as kinds
from trimtab.api.kinds.disruption import DisruptionBudget, InFlightDisruption
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Condition
from trimtab.decide import gate
from trimtab.decide.gate import Availability, budget_state
from trimtab.decide.pods.budgets.budget import RateWindow
from trimtab.decide.pods.budgets.eviction import (
    BudgetCharge,
    BudgetSnapshot,
    EvictedPod,
    EvictionVerdict,
    Preconditions,
    eviction_verdict,
)

PodBudget: TypeAlias = PodDisruptionBudget | DisruptionBudget
ALLOWED_CONDITION = "DisruptionAllowed"
SUFFICIENT, INSUFFICIENT, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"
SUPERSEDED_CONDITION = "Superseded"
"""Condition of a default budget that a user's budget replaces."""
RATE_ANNOTATION = "trimtab.dev/disruption-rate"
"""On a PodDisruptionBudget: `1/1h` is at most one disruption in any hour."""
EFFECTIVE_RATE_ANNOTATION = "trimtab.dev/effective-rate"
"""On a PodDisruptionBudget with a rate stricter than the floors of the policy: the effective rate."""
RECENT_ANNOTATION = "trimtab.dev/recent-disruptions"
"""On a PodDisruptionBudget with a rate: the times of recent disruptions, which its status has no field for."""
UNLIMITED = 1 << 30
"""What a budget without minAvailable and maxUnavailable allows."""
_RATE_PATTERN = re.compile(r"([0-9]{1,4})/(.+)\Z")


class DisruptionCause(NamedTuple):
    """Which component disrupts a pod, and why."""

    by: str = ""
    reason: str = ""


UNKNOWN_CAUSE = DisruptionCause()


class GuardingBudget(NamedTuple):
    """A budget that selects the pod, with the current number of its healthy pods, if known."""

    budget: PodBudget
    healthy: int | None = None


def selects(budget: PodBudget, pod: Pod) -> bool:
    """A missing selector selects nothing, an empty one everything in the namespace."""
    selector = budget.spec.selector
    if selector is None or budget.metadata.namespace != pod.metadata.namespace:
        return False
    return selector.matches(pod.metadata.labels)


def guards_pod(budget: PodBudget, pod: Pod, cause: DisruptionCause = UNKNOWN_CAUSE) -> bool:
    """Return whether a disruption of the pod for this cause is charged to this budget."""
    if isinstance(budget, DisruptionBudget) and not (is_over_pods(budget) and counts_cause(budget, cause)):
        return False
    return selects(budget, pod)


def is_over_pods(budget: DisruptionBudget) -> bool:
    return budget.spec.target != "Workloads" and not any(
        condition.type == SUPERSEDED_CONDITION and condition.status == "True" for condition in budget.status.conditions
    )


def counts_cause(budget: DisruptionBudget, cause: DisruptionCause) -> bool:
    return not budget.spec.reasons or not cause.reason or cause.reason in budget.spec.reasons


def evaluate_eviction(
    pod: Pod, budgets: Iterable[GuardingBudget], preconditions: Preconditions, now: datetime, *, several_allowed: bool
) -> EvictionVerdict:
    """Return the verdict of the eviction subresource by the budgets that guard the pod."""
    evicted = EvictedPod(
        name=pod.name,
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        phase=pod.status.phase,
        ready=pod.is_ready,
        terminating=pod.metadata.deletion_timestamp is not None,
    )
    snapshots = [budget_snapshot(guard, now) for guard in budgets]
    return eviction_verdict(evicted, snapshots, preconditions, now, several_allowed=several_allowed)


def budget_snapshot(guard: GuardingBudget, now: datetime) -> BudgetSnapshot:
    """Return the current state of the budget for the verdict."""
    budget = guard.budget
    status, condition = budget.status, condition_of(budget.status.conditions)
    closed, opens_at = _closed_reason(budget, now)
    unlimited = isinstance(budget, DisruptionBudget) and not _has_limit(with_effective_limits(budget))
    allowed, healthy = status.disruptions_allowed, status.current_healthy
    if guard.healthy is not None:
        healthy = min(healthy, guard.healthy)
        allowed = min(allowed, max(0, healthy - status.desired_healthy))
    return BudgetSnapshot(
        name=budget.name,
        generation=budget.metadata.generation,
        observed_generation=status.observed_generation,
        disruptions_allowed=UNLIMITED if unlimited else allowed,
        current_healthy=healthy,
        desired_healthy=status.desired_healthy,
        unconfirmed=len(status.disrupted_pods),
        always_allow_unhealthy=budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        condition_status=condition.status,
        condition_reason=condition.reason,
        condition_message=condition.message,
        rate=rate_of(budget),
        closed_reason=closed,
        opens_at=opens_at,
        kind=type(budget).__name__,
    )


def with_effective_limits(budget: DisruptionBudget) -> DisruptionBudget:
    """Return the budget with the effective limits after the policy's floors, once its controller has written them."""
    effective = budget.status.effective
    if effective is None or budget.status.observed_generation < budget.metadata.generation:
        return budget
    spec = budget.spec.but(
        min_available=effective.min_available, max_unavailable=effective.max_unavailable, rate=effective.rate
    )
    return budget.but(spec=spec)


def _has_limit(budget: DisruptionBudget) -> bool:
    return budget.spec.min_available is not None or budget.spec.max_unavailable is not None


def _closed_reason(budget: PodBudget, now: datetime) -> tuple[str, datetime | None]:
    """Return why the budget refuses all evictions whatever the number of healthy pods, and when it opens by itself."""
    if isinstance(budget, PodDisruptionBudget):
        text = budget.metadata.annotations.get(RATE_ANNOTATION)
        if text is None or parse_rate(text) is not None:
            return "", None
        error = f"The annotation {RATE_ANNOTATION} of the disruption budget {budget.name} is invalid: {text}"
        return f"{error}; use for example 1/1h", None
    state = budget_state(budget, Availability(), now)._replace(
        rate=None, replicas=None, missing=0
    )  # pods are counted in another way
    refusal = state.refusal(now, replacement_first=False)
    return (refusal.message, refusal.until) if refusal is not None else ("", None)


def rate_of(budget: PodBudget) -> RateWindow | None:
    """Return the effective rate with its recorded disruptions."""
    if isinstance(budget, DisruptionBudget):
        return gate.rate_of(with_effective_limits(budget))
    annotations = budget.metadata.annotations
    rate = parse_rate(annotations.get(RATE_ANNOTATION, ""))
    if rate is None:
        return None
    return (parse_rate(annotations.get(EFFECTIVE_RATE_ANNOTATION, "")) or rate)._replace(
        recent=_recorded_disruptions(budget)
    )


def parse_rate(text: str) -> RateWindow | None:
    """Parse `1/1h`; None when it is invalid."""
    found = _RATE_PATTERN.match(text)
    if found is None or not is_duration(found[2]) or not 1 <= int(found[1]) <= 1000:
        return None
    return RateWindow(int(found[1]), parse_duration(found[2]))


def annotated_rate(budget: PodDisruptionBudget) -> kinds.DisruptionRate | None:
    """Return the rate of the annotation as in a DisruptionBudget."""
    text = budget.metadata.annotations.get(RATE_ANNOTATION, "")
    if parse_rate(text) is None:
        return None
    disruptions, _, period = text.partition("/")
    return kinds.DisruptionRate(disruptions=int(disruptions), period=period)


def _recorded_disruptions(budget: PodDisruptionBudget) -> tuple[datetime, ...]:
    try:
        return tuple(msgspec.json.decode(budget.metadata.annotations.get(RECENT_ANNOTATION, "[]"), type=list[datetime]))
    except msgspec.DecodeError:
        return ()


def condition_of(conditions: Sequence[Condition], type_: str = ALLOWED_CONDITION) -> Condition:
    return next((one for one in conditions if one.type == type_), Condition(type=type_, status=""))


def charge_pod_budget(
    budget: PodBudget, charge: BudgetCharge, pod: str, cause: DisruptionCause, now: datetime
) -> PodBudget:
    """Return the budget charged for this pod; written in one transaction with the eviction."""
    disrupted = {**budget.status.disrupted_pods, pod: now.replace(microsecond=0)}
    if isinstance(budget, DisruptionBudget):
        in_flight = InFlightDisruption(object=pod, replicas=1, since=now, by=cause.by, reason=cause.reason)
        status = gate.charge_budget(with_effective_limits(budget), [in_flight], now).status
        if _has_limit(with_effective_limits(budget)):
            status = status.but(disruptions_allowed=charge.disruptions_allowed)
        remaining = status.disruptions_allowed if charge.rate is None else charge.rate.remaining(now)
        return budget.but(
            status=status.but(disrupted_pods=disrupted, allowed_now=min(status.disruptions_allowed, remaining))
        )
    return _charge_pdb(budget, charge, disrupted, now)


def _charge_pdb(
    budget: PodDisruptionBudget, charge: BudgetCharge, disrupted: dict[str, datetime], now: datetime
) -> PodDisruptionBudget:
    status = budget.status.but(disruptions_allowed=charge.disruptions_allowed, disrupted_pods=disrupted)
    if charge.disruptions_allowed == 0:
        status = status.but(conditions=with_allowed_condition(budget, INSUFFICIENT, now))
    if charge.rate is None:
        return budget.but(status=status)
    times = msgspec.json.encode(charge.rate.recent).decode()
    metadata = budget.metadata.but(annotations={**budget.metadata.annotations, RECENT_ANNOTATION: times})
    return budget.but(metadata=metadata, status=status)


def with_allowed_condition(
    budget: PodBudget, reason: str, now: datetime, *, message: str = ""
) -> tuple[Condition, ...]:
    """Return the budget's conditions with an updated DisruptionAllowed."""
    before = condition_of(budget.status.conditions)
    status = "True" if reason == SUFFICIENT else "False"
    now = now.replace(microsecond=0)
    after = Condition(
        type=ALLOWED_CONDITION,
        status=status,
        observed_generation=budget.metadata.generation,
        last_transition_time=before.last_transition_time if before.status == status else now,
        reason=reason,
        message=message,
    )
    others = tuple(condition for condition in budget.status.conditions if condition.type != ALLOWED_CONDITION)
    return (*others, after)
