"""The binding that a template gets under a policy, without any scheduling result."""

import msgspec

from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.policy import Policy
from trimtab.api.kinds.work import (
    Binding,
    BindingSchedulePriority,
    BindingSpec,
    BindingSuspension,
    ClusterResourceBinding,
    Component,
    ReplicaRequirements,
    ResourceBinding,
    WorkloadAffinityGroups,
)
from trimtab.api.value import Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Ref, View
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.propagation.claim_metadata import NO_CLAIM_ANNOTATIONS, NO_CLAIM_LABELS, claim_metadata
from trimtab.controllers.propagation.template_references import controller_reference, object_reference
from trimtab.controllers.settings import setting
from trimtab.interpret.names import binding_name
from trimtab.interpret.operations import InterpreterError, Operation


class BindingNotReady(Exception):
    """The binding cannot be built yet; the message names what is missing."""


def binding_for(template: Raw, policy: Policy, view: View) -> Binding:
    """The binding of this template under this policy, without any scheduling result."""
    ref = well_known.ref_of_raw(template)
    labels, annotations = claim_metadata(policy)
    name = binding_name(ref.kind, ref.name)
    cluster_wide = not ref.namespace
    own_label = well_known.CRB_ID if cluster_wide else well_known.RB_ID
    metadata = Meta(
        name=name,
        namespace=ref.namespace,
        labels=well_known.with_changes({own_label: well_known.permanent_id(ref.uid, ref.kind, name)}, labels),
        annotations=well_known.with_changes({}, annotations),
        finalizers=(well_known.CLUSTER_BINDING_FINALIZER if cluster_wide else well_known.BINDING_FINALIZER,),
        owner_references=(controller_reference(ref),),
    )
    spec = binding_spec(template, ref, policy, view)
    return (ClusterResourceBinding if cluster_wide else ResourceBinding)(metadata=metadata, spec=spec)


def binding_spec(template: Raw, ref: Ref, policy: Policy, view: View) -> BindingSpec:
    rules = policy.spec
    spec = BindingSpec(
        resource=object_reference(template),
        propagate_deps=rules.propagate_deps or rules.association,
        scheduler_name=rules.scheduler_name,
        placement=rules.placement,
        failover=rules.failover,
        conflict_resolution=rules.conflict_resolution,
        preserve_resources_on_deletion=rules.preserve_resources_on_deletion,
        suspension=suspension_of(policy),
    )
    spec = with_replicas(spec, template, view)
    if ref.namespace:
        spec = spec.but(
            schedule_priority=priority_of(policy, view),
            workload_affinity_groups=affinity_groups(template, policy, view),
        )
    return spec


def suspension_of(policy: Policy) -> BindingSuspension | None:
    wanted = policy.spec.suspension
    if wanted is None:
        return None
    return BindingSuspension(dispatching=wanted.dispatching, dispatching_on_clusters=wanted.dispatching_on_clusters)


def with_replicas(spec: BindingSpec, template: Raw, view: View) -> BindingSpec:
    interpreter = view.interpreter
    gvk = (template["apiVersion"], template["kind"])
    try:
        if feature_gates(view).components and interpreter.interprets(gvk, Operation.COMPONENT):
            found = interpreter.components(template)
            return spec.but(components=tuple(msgspec.convert(c, Component, strict=False) for c in found or ()))
        if interpreter.interprets(gvk, Operation.REPLICA):
            replicas, raw = interpreter.replicas(template)
            requirements = msgspec.convert(raw, ReplicaRequirements, strict=False) if raw is not None else None
            if requirements is not None and spec.resource.namespace and setting(view, "quota-estimate"):
                requirements = requirements.but(namespace=requirements.namespace or spec.resource.namespace)
            return spec.but(replicas=replicas, replica_requirements=requirements)
    except InterpreterError as fault:
        raise BindingNotReady(str(fault)) from fault
    return spec


def priority_of(policy: Policy, view: View) -> BindingSchedulePriority | None:
    wanted = policy.spec.schedule_priority
    if wanted is None:
        return None
    if wanted.priority_class_source != "KubePriorityClass":
        raise BindingNotReady(f"unsupported priority class source {wanted.priority_class_source}")
    found = view.get(PriorityClass, "", wanted.priority_class_name)
    if found is None:
        raise BindingNotReady(f'priorityclasses.scheduling.k8s.io "{wanted.priority_class_name}" not found')
    return BindingSchedulePriority(priority=found.value)


def affinity_groups(template: Raw, policy: Policy, view: View) -> WorkloadAffinityGroups | None:
    wanted = policy.spec.placement.workload_affinity
    if wanted is None:
        return None
    labels = well_known.labels_of(template)

    def group(key: str) -> str:
        return f"{key}={labels[key]}" if key in labels else ""

    return WorkloadAffinityGroups(
        affinity_group=group(wanted.affinity.group_by_label_key) if wanted.affinity else "",
        anti_affinity_group=group(wanted.anti_affinity.group_by_label_key) if wanted.anti_affinity else "",
    )


def merge_binding(seen: Binding, wanted: Binding) -> Binding:
    """`seen` with the detector's fields updated; clusters, eviction tasks and reschedule times have other owners."""
    suspension = wanted.spec.suspension
    if seen.spec.suspension is not None and seen.spec.suspension.scheduling is not None:
        suspension = (suspension or BindingSuspension()).but(scheduling=seen.spec.suspension.scheduling)
    own = wanted.spec
    spec = seen.spec.but(
        resource=own.resource,
        replica_requirements=own.replica_requirements,
        replicas=own.replicas,
        components=own.components,
        propagate_deps=own.propagate_deps,
        scheduler_name=own.scheduler_name,
        placement=own.placement,
        failover=own.failover,
        conflict_resolution=own.conflict_resolution,
        preserve_resources_on_deletion=own.preserve_resources_on_deletion,
        schedule_priority=own.schedule_priority,
        workload_affinity_groups=own.workload_affinity_groups,
        suspension=suspension,
    )
    own_label = well_known.CRB_ID if well_known.is_cluster_scoped(seen) else well_known.RB_ID
    kept_id = {own_label: seen.metadata.labels[own_label]} if own_label in seen.metadata.labels else {}
    metadata = seen.metadata.but(
        labels=well_known.with_changes(seen.metadata.labels, NO_CLAIM_LABELS) | wanted.metadata.labels | kept_id,
        annotations=well_known.with_changes(seen.metadata.annotations, NO_CLAIM_ANNOTATIONS)
        | wanted.metadata.annotations,
        finalizers=tuple(dict.fromkeys((*seen.metadata.finalizers, *wanted.metadata.finalizers))),
        owner_references=wanted.metadata.owner_references,
    )
    return seen.but(metadata=metadata, spec=spec)
