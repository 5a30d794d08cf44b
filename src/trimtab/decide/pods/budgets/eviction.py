"""The verdict of the eviction subresource: whether a pod may be evicted now, the response, and the budget charges."""

from collections.abc import Sequence
from datetime import datetime
from math import ceil
from typing import NamedTuple

from trimtab.api.duration import format_timedelta
from trimtab.decide.pods.budgets.budget import RateWindow

MAX_UNCONFIRMED = 2000
"""With more granted but unconfirmed disruptions than this, the budget refuses all evictions."""
STALE_RETRY_SECONDS = 10
VIOLATES_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class EvictedPod(NamedTuple):
    """The fields of a pod that the verdict reads."""

    name: str
    uid: str = ""
    resource_version: str = ""
    phase: str = "Running"
    ready: bool = False
    terminating: bool = False

    @property
    def is_finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_exempt(self) -> bool:
        """Its eviction disrupts nothing: no budget is checked."""
        return self.is_finished or self.terminating or self.phase == "Pending"


class BudgetSnapshot(NamedTuple):
    """A budget that selects the pod, with its current status."""

    name: str
    generation: int = 0
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    unconfirmed: int = 0
    """Granted disruptions not yet confirmed (`len(disruptedPods)`)."""
    always_allow_unhealthy: bool = False
    condition_status: str = ""
    condition_reason: str = ""
    condition_message: str = ""
    rate: RateWindow | None = None
    closed_reason: str = ""
    """Why it refuses all evictions whatever its health: no open window, too many disruptions in flight."""
    opens_at: datetime | None = None
    """When it opens by itself."""
    kind: str = ""

    def exempts_unhealthy(self) -> bool:
        """Return whether a pod that is not ready may be evicted without a charge: it does not count as healthy."""
        return self.always_allow_unhealthy or (self.current_healthy >= self.desired_healthy > 0)


class Preconditions(NamedTuple):
    """What the caller requires of the pod."""

    uid: str = ""
    resource_version: str = ""


class EvictionRefusal(NamedTuple):
    """A refusal as the API response reports it."""

    code: int
    reason: str
    message: str
    causes: tuple[str, ...] = ()
    """Each has the type DisruptionBudget."""
    retry_after_seconds: int = 0


class BudgetCharge(NamedTuple):
    """The values of a budget after it was charged."""

    budget: str
    disruptions_allowed: int
    rate: RateWindow | None
    kind: str = ""


class EvictionVerdict(NamedTuple):
    """The response and the writes; charges are written even when the deletion then hits a conflict."""

    refusal: EvictionRefusal | None
    charges: tuple[BudgetCharge, ...] = ()
    pinned_version: str = ""
    """The resourceVersion required for the deletion, before the condition write changes it."""

    @property
    def is_allowed(self) -> bool:
        return self.refusal is None


def eviction_verdict(
    pod: EvictedPod,
    budgets: Sequence[BudgetSnapshot],
    preconditions: Preconditions,
    now: datetime,
    *,
    several_allowed: bool,
) -> EvictionVerdict:
    """Evaluate `budgets`, which select the pod; with `several_allowed` all are checked where Kubernetes answers 500."""
    conflict = _precondition_conflict(pod, preconditions)
    pinned_version = preconditions.resource_version
    if pod.is_exempt:
        if not pod.is_finished and not pod.terminating:
            pinned_version = pinned_version or pod.resource_version
        return EvictionVerdict(conflict, (), "" if conflict else pinned_version)
    if len(budgets) > 1 and not several_allowed:
        return EvictionVerdict(EvictionRefusal(500, "", SEVERAL_BUDGETS))
    exempting = [budget for budget in budgets if not pod.ready and budget.exempts_unhealthy()]
    if exempting and not pinned_version:
        # The exemption holds only while the pod is unchanged: on a conflict the caller must retry.
        pinned_version = pod.resource_version
        conflict = conflict and _still_processed_refusal(exempting[0])
    charged = [budget for budget in budgets if budget not in exempting]
    if refusals := [refusal for budget in charged if (refusal := _budget_refusal(budget, now)) is not None]:
        return EvictionVerdict(_join_refusals(refusals))
    return EvictionVerdict(
        conflict, tuple(_charge(budget, now) for budget in charged), "" if conflict else pinned_version
    )


def _precondition_conflict(pod: EvictedPod, preconditions: Preconditions) -> EvictionRefusal | None:
    """Return the conflict that the deletion hits at its end; budgets are checked and charged before."""
    if preconditions.uid and preconditions.uid != pod.uid:
        mismatch = (
            f"the UID in the precondition ({preconditions.uid}) does not match the UID in record ({pod.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif preconditions.resource_version and preconditions.resource_version != pod.resource_version:
        mismatch = (
            f"the ResourceVersion in the precondition ({preconditions.resource_version}) does not match "
            f"the ResourceVersion in record ({pod.resource_version}). The object might have been modified"
        )
    else:
        return None
    return EvictionRefusal(409, "Conflict", f'Operation cannot be fulfilled on Pod "{pod.name}": {mismatch}')


def _still_processed_refusal(budget: BudgetSnapshot) -> EvictionRefusal:
    cause = f"The disruption budget {budget.name} is still being processed by the server."
    return EvictionRefusal(429, "TooManyRequests", VIOLATES_BUDGET, (cause,), STALE_RETRY_SECONDS)


def _budget_refusal(budget: BudgetSnapshot, now: datetime) -> EvictionRefusal | None:
    if budget.observed_generation < budget.generation:
        return _still_processed_refusal(budget)
    not_allowed = f"The disruption budget {budget.name} does not allow evicting pods currently"
    if budget.disruptions_allowed < 0:
        return _forbidden_refusal(
            budget, "pdb disruptions allowed is negative", f"{not_allowed}: pdb disruptions allowed is negative"
        )
    if budget.unconfirmed > MAX_UNCONFIRMED:
        return _forbidden_refusal(
            budget,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            f"{not_allowed}: too many pending evictions not confirmed by PDB controller",
        )
    causes, waits = [], [0]
    if budget.disruptions_allowed == 0:
        causes.append(_exhausted_message(budget, not_allowed))
    if budget.closed_reason:
        causes.append(budget.closed_reason)
        waits.append(_seconds_until(now, budget.opens_at))
    if budget.rate is not None and budget.rate.remaining(now) == 0:
        waits.append(_seconds_until(now, budget.rate.next_allowed_at(now)))
        used_up = f"the rate of {budget.rate.disruptions} in {format_timedelta(budget.rate.period)} is used up"
        causes.append(f"{not_allowed}: {used_up}, the next is allowed in {waits[-1]} s")
    return EvictionRefusal(429, "TooManyRequests", VIOLATES_BUDGET, tuple(causes), max(waits)) if causes else None


def _seconds_until(now: datetime, until: datetime | None) -> int:
    return ceil((until - now).total_seconds()) if until is not None else 0


def _forbidden_refusal(budget: BudgetSnapshot, error: str, cause: str) -> EvictionRefusal:
    message = f'poddisruptionbudget.policy "{budget.name}" is forbidden: {error}'
    return EvictionRefusal(403, "Forbidden", message, (cause,))


def _exhausted_message(budget: BudgetSnapshot, closed: str) -> str:
    has_failed_condition = budget.condition_status == "False" and budget.condition_message
    if has_failed_condition and budget.condition_reason == "SyncFailed":
        return f"{closed} because it failed sync: {budget.condition_message}"
    if budget.current_healthy <= budget.desired_healthy:
        return (
            f"The disruption budget {budget.name} needs {budget.desired_healthy} healthy pods "
            f"and has {budget.current_healthy} currently"
        )
    if has_failed_condition:
        return f"{closed} ({budget.condition_reason}): {budget.condition_message}"
    return closed


def _join_refusals(refusals: Sequence[EvictionRefusal]) -> EvictionRefusal:
    """Combine the refusals of several budgets: the lowest code, every cause, the longest wait."""
    harshest = min(refusals, key=lambda refusal: refusal.code)
    return harshest._replace(
        causes=tuple(cause for refusal in refusals for cause in refusal.causes),
        retry_after_seconds=max(refusal.retry_after_seconds for refusal in refusals),
    )


def _charge(budget: BudgetSnapshot, now: datetime) -> BudgetCharge:
    rate = budget.rate.with_disruption(now) if budget.rate else None
    return BudgetCharge(budget.name, budget.disruptions_allowed - 1, rate, budget.kind)
