"""Budgets for workloads whose users made none: as strict as their priority deserves, gone when the workload goes."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.disruption import DefaultBudget, DisruptionBudget, DisruptionBudgetSpec, DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import PodTemplateSpec
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Meta, OwnerReference
from trimtab.controllers.contract import View, Wake, Wish, spec_changed
from trimtab.controllers.pods.budget import DEFAULT
from trimtab.controllers.pods.owners import replicas_of
from trimtab.controllers.pods.registry import inside_a_cluster
from trimtab.decide.pods.guard import PodBudget

Workload = Deployment | StatefulSet | ReplicaSet | ReplicationController
WORKLOADS: tuple[type[Workload], ...] = (Deployment, StatefulSet, ReplicaSet, ReplicationController)


def every_workload(old: DisruptionPolicy | None, new: DisruptionPolicy | None, view: View) -> Iterable[Key]:
    if old is None or new is None or old.spec != new.spec:
        for type_ in WORKLOADS:
            yield from map(key_of, view.all(type_))


def unguarded_again(old: PodBudget | None, new: PodBudget | None, view: View) -> Iterable[Key]:
    """A budget went away: those it guarded may need a default one."""
    if old is not None and new is None:
        for type_ in WORKLOADS:
            yield from map(key_of, view.all(type_, old.namespace))


@inside_a_cluster(
    *WORKLOADS,
    name="default-budget",
    writes=["DisruptionBudget"],
    wakes=[
        Wake(DisruptionPolicy, every_workload),
        Wake(PodDisruptionBudget, unguarded_again),
        Wake(DisruptionBudget, unguarded_again),
    ],
    changed=spec_changed,
)
def default_budget(workload: Workload, view: View) -> Iterator[Wish]:
    policy = view.get(DisruptionPolicy, "", "default")
    meta = workload.metadata
    if policy is None or not policy.spec.default_budgets or meta.deletion_timestamp is not None:
        return
    if any(owner.controller for owner in meta.owner_references):
        return
    name = f"{workload.name}-{kind_of(workload).name.lower()}"
    if view.get(DisruptionBudget, workload.namespace, name) is not None or is_guarded(workload, view):
        return
    chosen = default_for(priority_of(workload, view), policy.spec.default_budgets)
    if chosen is not None:
        yield made_for(workload, name, chosen)


def template_of(workload: Workload) -> PodTemplateSpec:
    return workload.spec.template or PodTemplateSpec()


def selector_of(workload: Workload) -> LabelSelector:
    if isinstance(workload, ReplicationController):
        return LabelSelector(match_labels=workload.spec.selector or template_of(workload).metadata.labels)
    return workload.spec.selector or LabelSelector(match_labels=template_of(workload).metadata.labels)


def is_guarded(workload: Workload, view: View) -> bool:
    labels = template_of(workload).metadata.labels
    budgets: list[PodBudget] = [*view.all(PodDisruptionBudget, workload.namespace)]
    budgets += [one for one in view.all(DisruptionBudget, workload.namespace) if one.spec.target != "Workloads"]
    return any(budget.spec.selector is not None and budget.spec.selector.matches(labels) for budget in budgets)


def priority_of(workload: Workload, view: View) -> str:
    """The name of the priority class that its pods get."""
    named = template_of(workload).spec.priority_class_name
    usual = sorted((one for one in view.all(PriorityClass) if one.global_default), key=lambda one: one.value)
    return named or (usual[0].name if usual else "")


def default_for(priority: str, defaults: Iterable[DefaultBudget]) -> DefaultBudget | None:
    by_name = {one.priority_class_name: one for one in defaults}
    return by_name.get(priority) or by_name.get("")


def made_for(workload: Workload, name: str, chosen: DefaultBudget) -> DisruptionBudget:
    kind = kind_of(workload)
    owner = OwnerReference(
        api_version=kind.api_version, kind=kind.name, name=workload.name, uid=workload.metadata.uid, controller=True
    )
    # a single replica could never leave under a share of it: nobody gets a default that cannot be drained
    alone = replicas_of(workload) <= 1
    spec = DisruptionBudgetSpec(
        target="Pods",
        selector=selector_of(workload),
        max_unavailable=1 if alone or chosen.max_unavailable is None else chosen.max_unavailable,
        rate=chosen.rate,
        unhealthy_pod_eviction_policy="AlwaysAllow",
    )
    metadata = Meta(name=name, namespace=workload.namespace, labels={DEFAULT: "true"}, owner_references=(owner,))
    return DisruptionBudget(metadata=metadata, spec=spec)
