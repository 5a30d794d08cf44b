"""May this pod be evicted now: the verdict of the eviction subresource, with what it debits and what it answers."""

from collections.abc import Sequence
from datetime import datetime
from math import ceil
from typing import NamedTuple

from trimtab.api.duration import told
from trimtab.decide.pods.budgets.budget import Rate

TOO_MANY_UNCONFIRMED = 2000
"""More granted disruptions than this that nobody confirmed, and the budget answers no more."""
STALE_RETRY_SECONDS = 10
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class EvictedPod(NamedTuple):
    """What the verdict needs to know of the pod."""

    name: str
    uid: str = ""
    resource_version: str = ""
    phase: str = "Running"
    ready: bool = False
    terminating: bool = False

    @property
    def finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def free(self) -> bool:
        """Its going disturbs nobody: no budget is asked."""
        return self.finished or self.terminating or self.phase == "Pending"


class Budget(NamedTuple):
    """A budget that selects the pod, as its status stands."""

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
    rate: Rate | None = None
    closed: str = ""
    """Why it lets nobody go, whatever its strength: no window is open, too many are on their way."""
    opens_at: datetime | None = None
    """When time alone ends that."""
    kind: str = ""

    def exempts_unhealthy(self) -> bool:
        """A pod that is not ready may go without a debit: it adds nothing to the strength."""
        return self.always_allow_unhealthy or (self.current_healthy >= self.desired_healthy > 0)


class Preconditions(NamedTuple):
    """What the caller says the pod must still be."""

    uid: str = ""
    resource_version: str = ""


class Refusal(NamedTuple):
    """Why not, as the wire tells it."""

    code: int
    reason: str
    message: str
    causes: tuple[str, ...] = ()
    """Each has the type DisruptionBudget."""
    retry_after_seconds: int = 0


class Debit(NamedTuple):
    """What is left of a budget after it paid."""

    budget: str
    disruptions_allowed: int
    rate: Rate | None
    kind: str = ""


class Verdict(NamedTuple):
    """What to answer and what to write; debits are written even when the deletion then meets a conflict."""

    refusal: Refusal | None
    debits: tuple[Debit, ...] = ()
    pinned_version: str = ""
    """The resourceVersion the deletion must still find, before the condition write bumps it."""

    @property
    def allowed(self) -> bool:
        return self.refusal is None


def verdict(
    pod: EvictedPod,
    budgets: Sequence[Budget],
    preconditions: Preconditions,
    now: datetime,
    *,
    several_allowed: bool,
) -> Verdict:
    """`budgets` are those that select the pod; `several_allowed` asks all of them where Kubernetes answers 500."""
    conflict = _conflict(pod, preconditions)
    pinned = preconditions.resource_version
    if pod.free:
        if not pod.finished and not pod.terminating:
            pinned = pinned or pod.resource_version
        return Verdict(conflict, (), "" if conflict else pinned)
    if len(budgets) > 1 and not several_allowed:
        return Verdict(Refusal(500, "", SEVERAL))
    exempting = [budget for budget in budgets if not pod.ready and budget.exempts_unhealthy()]
    if exempting and not pinned:
        # The exemption holds only while the pod stays as it was seen: on a conflict the caller must ask again.
        pinned = pod.resource_version
        conflict = conflict and _still_processed(exempting[0])
    asked = [budget for budget in budgets if budget not in exempting]
    if refusals := [refusal for budget in asked if (refusal := _refusal(budget, now)) is not None]:
        return Verdict(_joined(refusals))
    return Verdict(conflict, tuple(_debit(budget, now) for budget in asked), "" if conflict else pinned)


def _conflict(pod: EvictedPod, preconditions: Preconditions) -> Refusal | None:
    """What the deletion meets at its end; the budgets are asked, and pay, before."""
    if preconditions.uid and preconditions.uid != pod.uid:
        told = (
            f"the UID in the precondition ({preconditions.uid}) does not match the UID in record ({pod.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif preconditions.resource_version and preconditions.resource_version != pod.resource_version:
        told = (
            f"the ResourceVersion in the precondition ({preconditions.resource_version}) does not match "
            f"the ResourceVersion in record ({pod.resource_version}). The object might have been modified"
        )
    else:
        return None
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on Pod "{pod.name}": {told}')


def _still_processed(budget: Budget) -> Refusal:
    cause = f"The disruption budget {budget.name} is still being processed by the server."
    return Refusal(429, "TooManyRequests", VIOLATES, (cause,), STALE_RETRY_SECONDS)


def _refusal(budget: Budget, now: datetime) -> Refusal | None:
    if budget.observed_generation < budget.generation:
        return _still_processed(budget)
    closed = f"The disruption budget {budget.name} does not allow evicting pods currently"
    if budget.disruptions_allowed < 0:
        return _forbidden(
            budget, "pdb disruptions allowed is negative", f"{closed}: pdb disruptions allowed is negative"
        )
    if budget.unconfirmed > TOO_MANY_UNCONFIRMED:
        return _forbidden(
            budget,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            f"{closed}: too many pending evictions not confirmed by PDB controller",
        )
    causes, waits = [], [0]
    if budget.disruptions_allowed == 0:
        causes.append(_exhausted(budget, closed))
    if budget.closed:
        causes.append(budget.closed)
        waits.append(_seconds(now, budget.opens_at))
    if budget.rate is not None and budget.rate.left(now) == 0:
        waits.append(_seconds(now, budget.rate.next_allowed(now)))
        spent = f"{budget.rate.disruptions} in {told(budget.rate.period)} are spent"
        causes.append(f"{closed}: {spent}, the next in {waits[-1]} s")
    return Refusal(429, "TooManyRequests", VIOLATES, tuple(causes), max(waits)) if causes else None


def _seconds(now: datetime, until: datetime | None) -> int:
    return ceil((until - now).total_seconds()) if until is not None else 0


def _forbidden(budget: Budget, told: str, cause: str) -> Refusal:
    message = f'poddisruptionbudget.policy "{budget.name}" is forbidden: {told}'
    return Refusal(403, "Forbidden", message, (cause,))


def _exhausted(budget: Budget, closed: str) -> str:
    complains = budget.condition_status == "False" and budget.condition_message
    if complains and budget.condition_reason == "SyncFailed":
        return f"{closed} because it failed sync: {budget.condition_message}"
    if budget.current_healthy <= budget.desired_healthy:
        return (
            f"The disruption budget {budget.name} needs {budget.desired_healthy} healthy pods "
            f"and has {budget.current_healthy} currently"
        )
    if complains:
        return f"{closed} ({budget.condition_reason}): {budget.condition_message}"
    return closed


def _joined(refusals: Sequence[Refusal]) -> Refusal:
    """Several budgets refuse: the harshest answer, every cause, the longest wait."""
    harshest = min(refusals, key=lambda refusal: refusal.code)
    return harshest._replace(
        causes=tuple(cause for refusal in refusals for cause in refusal.causes),
        retry_after_seconds=max(refusal.retry_after_seconds for refusal in refusals),
    )


def _debit(budget: Budget, now: datetime) -> Debit:
    rate = budget.rate.spent(now) if budget.rate else None
    return Debit(budget.name, budget.disruptions_allowed - 1, rate, budget.kind)
