"""Creates default budgets, by priority, for workloads without a budget; they are deleted with their workload."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.disruption import DefaultBudget, DisruptionBudget, DisruptionBudgetSpec, DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod, PodSpec, PodTemplateSpec
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Meta, OwnerReference
from trimtab.controllers.contract import Effect, RequeueAfter, Trigger, View, spec_changed, spec_differs
from trimtab.controllers.pods.budget import DEFAULT_BUDGET_LABEL
from trimtab.controllers.pods.owners import custom_owner, replicas_of
from trimtab.controllers.pods.registry import member_controller
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.budgets.pod_budgets import PodBudget
from trimtab.decide.pods.budgets.scalable_kinds import is_custom_kind

Workload = Deployment | StatefulSet | ReplicaSet | ReplicationController
SELECTOR_RETRY_SECONDS = 30.0
"""Retry interval while a custom resource does not report its selector."""
WORKLOADS: tuple[type[Workload], ...] = (Deployment, StatefulSet, ReplicaSet, ReplicationController)


def every_workload(old: DisruptionPolicy | None, new: DisruptionPolicy | None, view: View) -> Iterable[Key]:
    if spec_differs(old, new):
        for type_ in WORKLOADS:
            yield from map(key_of, view.all(type_))


def workloads_of_deleted_budget(old: PodBudget | None, new: PodBudget | None, view: View) -> Iterable[Key]:
    """Wake workloads of the namespace when a budget is deleted: they may need a default one."""
    if old is not None and new is None:
        for type_ in WORKLOADS:
            yield from map(key_of, view.all(type_, old.namespace))


@member_controller(
    *WORKLOADS,
    name="default-budget",
    writes=["DisruptionBudget"],
    triggers=[
        Trigger(DisruptionPolicy, every_workload),
        Trigger(PodDisruptionBudget, workloads_of_deleted_budget),
        Trigger(DisruptionBudget, workloads_of_deleted_budget),
    ],
    predicate=spec_changed,
)
def default_budget(workload: Workload, view: View) -> Iterator[Effect]:
    template = template_of(workload)
    owner = next((one for one in workload.metadata.owner_references if one.controller), None)
    if workload.metadata.deletion_timestamp is not None:
        return
    if owner is not None:
        yield from custom_owner_budget(owner, workload.namespace, CoveredPods.of_template(template), view)
        return
    kind = kind_of(workload)
    # with a percentage, a single replica could never be evicted, and every default budget must allow a drain
    budget_owner = BudgetOwner(
        owner_reference_to(kind.api_version, kind.name, workload.metadata),
        workload.namespace,
        replicas_of(workload) <= 1,
    )
    yield from budget_for(budget_owner, selector_of(workload), CoveredPods.of_template(template), view)


def has_custom_owner(old: Pod | None, new: Pod) -> bool:
    """Whether a pod belongs to a custom resource, and its owner or labels are new."""
    owner = new.controller
    if owner is None or not is_custom_kind(owner):
        return False
    return old is None or old.metadata.labels != new.metadata.labels or old.controller != owner


def all_custom_owned_pods(old: DisruptionPolicy | None, new: DisruptionPolicy | None, view: View) -> Iterable[Key]:
    if spec_differs(old, new):
        yield from (key_of(pod) for pod in view.all(Pod) if has_custom_owner(None, pod))


def custom_owned_pods_of_deleted_budget(old: PodBudget | None, new: PodBudget | None, view: View) -> Iterable[Key]:
    if old is not None and new is None:
        yield from (key_of(pod) for pod in view.all(Pod, old.namespace) if has_custom_owner(None, pod))


@member_controller(
    Pod,
    name="default-budget-of-pods",
    writes=["DisruptionBudget"],
    triggers=[
        Trigger(DisruptionPolicy, all_custom_owned_pods),
        Trigger(PodDisruptionBudget, custom_owned_pods_of_deleted_budget),
        Trigger(DisruptionBudget, custom_owned_pods_of_deleted_budget),
    ],
    predicate=has_custom_owner,
)
def default_budget_of_pods(pod: Pod, view: View) -> Iterator[Effect]:
    """Only its pods show that a custom resource runs pods, and which priority they have."""
    if pod.controller is not None and pod.metadata.deletion_timestamp is None and not pod.is_terminal:
        yield from custom_owner_budget(pod.controller, pod.namespace, CoveredPods(pod.metadata.labels, pod.spec), view)


class CoveredPods(NamedTuple):
    """The labels and spec of the pods that a budget would cover."""

    labels: Labels
    spec: PodSpec

    @staticmethod
    def of_template(template: PodTemplateSpec) -> "CoveredPods":
        return CoveredPods(template.metadata.labels, template.spec)


class BudgetOwner(NamedTuple):
    """The owner of a default budget."""

    owner: OwnerReference
    namespace: str
    is_single_replica: bool


def custom_owner_budget(owner: OwnerReference, namespace: str, covered: CoveredPods, view: View) -> Iterator[Effect]:
    """The default budget of a custom resource with a scale subresource, once it reports its selector."""
    found = custom_owner(owner, namespace, view)
    if found is None or not found.kind.namespaced or not found.kind.scale.selector_path:
        return
    selector = found.kind.selector(found.raw) if found.raw is not None else None
    if found.raw is None or selector is None or not selector.matches(covered.labels):
        yield RequeueAfter(SELECTOR_RETRY_SECONDS)
        return
    metadata = msgspec.convert(found.raw["metadata"], Meta, strict=False)
    is_single = (found.kind.replicas(found.raw) or 1) <= 1
    budget_owner = BudgetOwner(
        owner_reference_to(found.kind.api_version, found.kind.kind, metadata), namespace, is_single
    )
    yield from budget_for(budget_owner, selector, covered, view)


def owner_reference_to(api_version: str, kind: str, metadata: Meta) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=metadata.name, uid=metadata.uid, controller=True)


def budget_for(
    budget_owner: BudgetOwner, selector: LabelSelector, covered: CoveredPods, view: View
) -> Iterator[DisruptionBudget]:
    policy = view.get(DisruptionPolicy, "", "default")
    name = f"{budget_owner.owner.name}-{budget_owner.owner.kind.lower()}"
    if policy is None or view.get(DisruptionBudget, budget_owner.namespace, name) is not None:
        return
    if has_budget(covered.labels, budget_owner.namespace, view):
        return
    chosen = matching_default(priority_class_of(covered.spec, view), policy.spec.default_budgets)
    if chosen is not None:
        yield new_default_budget(budget_owner, name, selector, chosen)


def template_of(workload: Workload) -> PodTemplateSpec:
    return workload.spec.template or PodTemplateSpec()


def selector_of(workload: Workload) -> LabelSelector:
    if isinstance(workload, ReplicationController):
        return LabelSelector(match_labels=workload.spec.selector or template_of(workload).metadata.labels)
    return workload.spec.selector or LabelSelector(match_labels=template_of(workload).metadata.labels)


def has_budget(labels: Labels, namespace: str, view: View) -> bool:
    budgets: list[PodBudget] = [*view.all(PodDisruptionBudget, namespace)]
    budgets += [one for one in view.all(DisruptionBudget, namespace) if one.spec.target != "Workloads"]
    return any(budget.spec.selector is not None and budget.spec.selector.matches(labels) for budget in budgets)


def priority_class_of(spec: PodSpec, view: View) -> str:
    """The name of the priority class of these pods."""
    defaults = sorted((one for one in view.all(PriorityClass) if one.global_default), key=lambda one: one.value)
    return spec.priority_class_name or (defaults[0].name if defaults else "")


def matching_default(priority: str, defaults: Iterable[DefaultBudget]) -> DefaultBudget | None:
    by_name = {one.priority_class_name: one for one in defaults}
    return by_name.get(priority) or by_name.get("")


def new_default_budget(
    budget_owner: BudgetOwner, name: str, selector: LabelSelector, chosen: DefaultBudget
) -> DisruptionBudget:
    spec = DisruptionBudgetSpec(
        target="Pods",
        selector=selector,
        max_unavailable=1
        if budget_owner.is_single_replica or chosen.max_unavailable is None
        else chosen.max_unavailable,
        rate=chosen.rate,
        unhealthy_pod_eviction_policy="AlwaysAllow",
    )
    metadata = Meta(
        name=name,
        namespace=budget_owner.namespace,
        labels={DEFAULT_BUDGET_LABEL: "true"},
        owner_references=(budget_owner.owner,),
    )
    return DisruptionBudget(metadata=metadata, spec=spec)
