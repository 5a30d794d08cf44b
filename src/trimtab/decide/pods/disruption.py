"""PodDisruptionBudgets as the API has them: their next status, and what evictions and preemption read of them."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from trimtab.api.kinds.native.disruption import PodDisruptionBudget, PodDisruptionBudgetStatus
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Condition
from trimtab.decide.budget import Controller, CoveredPod, Limit, Unknown, assess
from trimtab.decide.evict import Budget, Debit, EvictedPod, Preconditions, Verdict, verdict
from trimtab.decide.pods.terms import choice
from trimtab.decide.preempt import Cover

ALLOWED = "DisruptionAllowed"
SUFFICIENT, INSUFFICIENT, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """An absent selector selects nothing, an empty one everything in the namespace."""
    selector = budget.spec.selector
    if selector is None or budget.metadata.namespace != pod.metadata.namespace:
        return False
    return selector.matches(pod.metadata.labels)


def next_status(
    budget: PodDisruptionBudget, pods: Iterable[Pod], controllers: Mapping[str, Controller], now: datetime
) -> PodDisruptionBudgetStatus:
    """What the status should be; equal to the present one when there is nothing to write."""
    spec, status = budget.spec, budget.status
    limit = Limit(spec.min_available, spec.max_unavailable)
    covered = [_covered(pod) for pod in pods if selects(budget, pod)]
    found = assess(limit, covered, controllers, status.disrupted_pods, now)
    if isinstance(found, Unknown):
        return status.but(
            disruptions_allowed=0, conditions=_conditions(budget, SYNC_FAILED, now, message=found.message)
        )
    return PodDisruptionBudgetStatus(
        observed_generation=budget.metadata.generation,
        disrupted_pods=found.disrupted,
        disruptions_allowed=found.allowed,
        current_healthy=found.current_healthy,
        desired_healthy=found.desired_healthy,
        expected_pods=found.expected,
        conditions=_conditions(budget, SUFFICIENT if found.allowed > 0 else INSUFFICIENT, now),
    )


def _covered(pod: Pod) -> CoveredPod:
    owner = pod.controller
    return CoveredPod(
        name=pod.name,
        ready=pod.ready,
        terminating=pod.metadata.deletion_timestamp is not None,
        controller=f"{owner.kind}/{owner.name}" if owner else "",
        controller_uid=owner.uid if owner else "",
    )


def condition_of(budget: PodDisruptionBudget) -> Condition:
    found = (condition for condition in budget.status.conditions if condition.type == ALLOWED)
    return next(found, Condition(type=ALLOWED, status=""))


def _conditions(budget: PodDisruptionBudget, reason: str, now: datetime, *, message: str = "") -> tuple[Condition, ...]:
    before = condition_of(budget)
    status = "True" if reason == SUFFICIENT else "False"
    since = before.last_transition_time if before.status == status else now
    after = Condition(
        type=ALLOWED,
        status=status,
        observed_generation=budget.metadata.generation,
        last_transition_time=since,
        reason=reason,
        message=message,
    )
    others = tuple(condition for condition in budget.status.conditions if condition.type != ALLOWED)
    return (*others, after)


def judge_eviction(
    pod: Pod,
    budgets: Iterable[PodDisruptionBudget],
    preconditions: Preconditions,
    now: datetime,
    *,
    several_allowed: bool,
) -> Verdict:
    """The verdict of the eviction subresource; `budgets` may be all there are."""
    asked = EvictedPod(
        name=pod.name,
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
        phase=pod.status.phase,
        ready=pod.ready,
        terminating=pod.metadata.deletion_timestamp is not None,
    )
    guarding = [_guard(budget) for budget in budgets if selects(budget, pod)]
    return verdict(asked, guarding, preconditions, now, several_allowed=several_allowed)


def _guard(budget: PodDisruptionBudget) -> Budget:
    status, condition = budget.status, condition_of(budget)
    return Budget(
        name=budget.name,
        generation=budget.metadata.generation,
        observed_generation=status.observed_generation,
        disruptions_allowed=status.disruptions_allowed,
        current_healthy=status.current_healthy,
        desired_healthy=status.desired_healthy,
        unconfirmed=len(status.disrupted_pods),
        always_allow_unhealthy=budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        condition_status=condition.status,
        condition_reason=condition.reason,
        condition_message=condition.message,
    )


def debited(budget: PodDisruptionBudget, debit: Debit, pod: str, now: datetime) -> PodDisruptionBudgetStatus:
    """The budget's status once it has paid for this pod."""
    status = budget.status
    conditions = _conditions(budget, INSUFFICIENT, now) if debit.disruptions_allowed == 0 else status.conditions
    return status.but(
        disruptions_allowed=debit.disruptions_allowed,
        disrupted_pods={**status.disrupted_pods, pod: now},
        conditions=conditions,
    )


def cover(budget: PodDisruptionBudget) -> Cover:
    """The budget as preemption sees it."""
    return Cover(
        namespace=budget.metadata.namespace,
        selector=choice(budget.spec.selector, {}),
        allowed=budget.status.disruptions_allowed,
        disrupted=frozenset(budget.status.disrupted_pods),
    )
