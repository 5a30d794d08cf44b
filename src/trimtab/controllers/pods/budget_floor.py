"""A PodDisruptionBudget below every DisruptionBudget over pods, for API servers that know only the former.

On a stock Kubernetes a webhook enforces DisruptionBudgets. While no webhook answers, the API server evicts by its own budgets
alone; so each DisruptionBudget with a limit gets a PodDisruptionBudget with the same limit. Rates and windows are not in it.
The API server evicts no pod that two PodDisruptionBudgets select, so there is none where another one selects the same pods.
"""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.disruption import PodDisruptionBudget, PodDisruptionBudgetSpec
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Meta, OwnerReference
from trimtab.controllers.contract import Delete, Effect, Trigger, View, spec_differs
from trimtab.controllers.pods.budget import FLOOR_LABEL, budgets_selecting_pod
from trimtab.controllers.pods.registry import member_controller
from trimtab.controllers.settings import setting
from trimtab.decide.pods.budgets.pod_budgets import PodBudget, is_over_pods, selects, with_effective_limits


def budgets_in_namespace(old: PodDisruptionBudget | None, new: PodDisruptionBudget | None, view: View) -> Iterable[Key]:
    one = new or old
    if one is not None and spec_differs(old, new):
        yield from map(key_of, view.all(DisruptionBudget, one.namespace))


@member_controller(
    DisruptionBudget,
    name="pod-budget-floor",
    writes=["PodDisruptionBudget"],
    triggers=[Trigger(PodDisruptionBudget, budgets_in_namespace), Trigger(Pod, budgets_selecting_pod)],
)
def pod_budget_floor(budget: DisruptionBudget, view: View) -> Iterator[Effect]:
    if not setting(view, "pod-budget-floors") or budget.metadata.deletion_timestamp is not None:
        return
    present = view.get(PodDisruptionBudget, budget.namespace, budget.name)
    is_own = present is not None and present.metadata.labels.get(FLOOR_LABEL) == budget.name
    wanted = wanted_floor(budget, view)
    if wanted is None:
        if present is not None and is_own:
            yield Delete(present)
    elif present is None:
        yield wanted
    elif is_own and present.spec != wanted.spec:
        yield present.but(spec=wanted.spec)


def wanted_floor(budget: DisruptionBudget, view: View) -> PodDisruptionBudget | None:
    """The floor; None where the budget has no limit, or another PodDisruptionBudget selects one of its pods."""
    limits = with_effective_limits(budget).spec
    has_limit = limits.min_available is not None or limits.max_unavailable is not None
    if not has_limit or not is_over_pods(budget) or budget.spec.selector is None:
        return None
    others: list[PodBudget] = [
        *(one for one in view.all(PodDisruptionBudget, budget.namespace) if FLOOR_LABEL not in one.metadata.labels),
        *(
            one
            for one in view.all(DisruptionBudget, budget.namespace)
            if one.name < budget.name and is_over_pods(one) and one.metadata.deletion_timestamp is None
        ),
    ]
    pods = [pod for pod in view.all(Pod, budget.namespace) if selects(budget, pod)]
    if any(selects(other, pod) for other in others for pod in pods):
        return None
    kind = kind_of(budget)
    owner = OwnerReference(
        api_version=kind.api_version, kind=kind.name, name=budget.name, uid=budget.metadata.uid, controller=True
    )
    return PodDisruptionBudget(
        metadata=Meta(
            name=budget.name,
            namespace=budget.namespace,
            labels={FLOOR_LABEL: budget.name},
            owner_references=(owner,),
        ),
        spec=PodDisruptionBudgetSpec(
            min_available=limits.min_available,
            max_unavailable=limits.max_unavailable,
            selector=budget.spec.selector,
            unhealthy_pod_eviction_policy=budget.spec.unhealthy_pod_eviction_policy or None,
        ),
    )
