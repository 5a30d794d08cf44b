"""The disruption controller: keeps the status of PodDisruptionBudgets up to date."""

from collections.abc import Iterator

import msgspec

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionRate
from trimtab.api.kinds.native.disruption import PodDisruptionBudget, PodDisruptionBudgetStatus
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Effect, RequeueAfter, Trigger, View, spec_differs
from trimtab.controllers.pods.budget import effective_budget
from trimtab.controllers.pods.owners import controllers_in
from trimtab.decide.pods.budgets.budget import DELETION_DEADLINE, BudgetLimit
from trimtab.decide.pods.budgets.budget_status import NamespacePods, next_status, with_capped_condition
from trimtab.decide.pods.budgets.pod_budgets import EFFECTIVE_RATE_ANNOTATION, annotated_rate, selects
from trimtab.simulate.workloads.owned_pods import AlwaysWritten, raw_of, update_status
from trimtab.simulate.workloads.registry import workload

COUNT_FIELDS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _budgets_of_pod(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    pod = new or old
    for budget in view.all(PodDisruptionBudget, pod.namespace) if pod else ():
        if any(seen is not None and selects(budget, seen) for seen in (old, new)):
            yield key_of(budget)


def _budgets_under_policy(old: DisruptionPolicy | None, new: DisruptionPolicy | None, view: View) -> Iterator[Key]:
    if spec_differs(old, new):
        yield from (key_of(budget) for budget in view.all(PodDisruptionBudget))


@workload(
    PodDisruptionBudget,
    writes=["status", "metadata.annotations"],
    triggers=[Trigger(Pod, _budgets_of_pod), Trigger(DisruptionPolicy, _budgets_under_policy)],
)
def disruption(budget: PodDisruptionBudget, view: View) -> Iterator[Effect]:
    workload_pods = NamespacePods(view.all(Pod, budget.namespace), controllers_in(budget.namespace, view))
    effective = effective_budget(
        budget, BudgetLimit(budget.spec.min_available, budget.spec.max_unavailable), workload_pods, view
    )
    limit = BudgetLimit(effective.min_available, effective.max_unavailable)
    status = next_status(budget, workload_pods.pods, workload_pods.controllers, view.now, limit)
    status = status.but(conditions=with_capped_condition(budget.but(status=status), effective, view.now))
    yield from update_status(raw_of(budget, view), _status_fields(status), _with_effective_rate(budget, effective.rate))
    if status.disrupted_pods:
        until = min(status.disrupted_pods.values()) + DELETION_DEADLINE
        yield RequeueAfter(max(0.0, (until - view.now).total_seconds()))


def _with_effective_rate(budget: PodDisruptionBudget, rate: DisruptionRate | None) -> dict[str, str]:
    """The annotations with the effective rate, where the floors of the policy change the rate of the budget."""
    others = {key: text for key, text in budget.metadata.annotations.items() if key != EFFECTIVE_RATE_ANNOTATION}
    effective = (
        {EFFECTIVE_RATE_ANNOTATION: f"{rate.disruptions}/{rate.period}"}
        if rate not in (None, annotated_rate(budget))
        else {}
    )
    return others | effective


def _status_fields(status: PodDisruptionBudgetStatus) -> Raw:
    fields: Raw = msgspec.json.decode(msgspec.json.encode(status))
    return fields | {name: AlwaysWritten(fields.get(name, 0)) for name in COUNT_FIELDS}
