"""What a budget over pods should say of itself, and what preemption reads of it."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from trimtab.api.kinds.native.disruption import PodDisruptionBudget, PodDisruptionBudgetStatus
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.budget import Controller, CoveredPod, Limit, Unknown, assess
from trimtab.decide.pods.guard import INSUFFICIENT, SUFFICIENT, SYNC_FAILED, selects, with_allowed
from trimtab.decide.pods.terms import choice
from trimtab.decide.preempt import Cover


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
            disruptions_allowed=0, conditions=with_allowed(budget, SYNC_FAILED, now, message=found.message)
        )
    return PodDisruptionBudgetStatus(
        observed_generation=budget.metadata.generation,
        disrupted_pods=found.disrupted,
        disruptions_allowed=found.allowed,
        current_healthy=found.current_healthy,
        desired_healthy=found.desired_healthy,
        expected_pods=found.expected,
        conditions=with_allowed(budget, SUFFICIENT if found.allowed > 0 else INSUFFICIENT, now),
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


def cover(budget: PodDisruptionBudget) -> Cover:
    """The budget as preemption sees it."""
    return Cover(
        namespace=budget.metadata.namespace,
        selector=choice(budget.spec.selector, {}),
        allowed=budget.status.disruptions_allowed,
        disrupted=frozenset(budget.status.disrupted_pods),
    )
