"""Matches templates with propagation policies and creates a binding for each template that a policy claims."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
import orjson

from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.override_policy import ClusterOverridePolicy, OverridePolicy
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
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
from trimtab.api.value import Key, Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Make, Note, Ref, Remember, View, Wake, Wish, controller
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.propagation.dependencies import brought_along
from trimtab.controllers.propagation.template_references import controller_reference, object_reference
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.match import policy_priority
from trimtab.interpret.names import binding_name
from trimtab.interpret.operations import InterpreterError, Operation

SOURCE = "resource-detector"
RESERVED = re.compile(r"karmada-system|karmada-cluster|karmada-es-.*|kube-.*")
NOT_USERS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
P = TypeVar("P", bound=Policy)


def deserves_a_look(old: Raw | None, new: Raw) -> bool:
    """Whether anything but the status, managedFields and resourceVersion changed."""
    if old is None:
        return True
    if any(old.get(key) != value for key, value in new.items() if key not in ("metadata", "status")) or any(
        key not in new for key in old if key != "status"
    ):
        return True
    return _spoken(old["metadata"]) != _spoken(new["metadata"])


def _spoken(metadata: Raw) -> Raw:
    return {key: value for key, value in metadata.items() if key not in ("managedFields", "resourceVersion")}


def selectors_of(policy: Any) -> list[Raw]:
    return [msgspec.to_builtins(selector) for selector in policy.spec.resource_selectors]


def templates_of_policy(old: Policy | None, new: Policy | None, view: View) -> Iterable[Key]:
    """A policy was created, changed or deleted: the templates it selects, and those it has claimed."""
    policy = new or old
    if policy is None or (
        old is not None
        and new is not None
        and (old.metadata.generation, old.metadata.labels) == (new.metadata.generation, new.metadata.labels)
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    ):
        return
    for selector in policy.spec.resource_selectors:
        namespace = policy.namespace or selector.namespace or None
        selectors = [msgspec.to_builtins(selector)]
        for raw in view.raws(selector.api_version, selector.kind, namespace):
            if policy_priority(selectors, raw) and (key := view.key(well_known.ref_of_raw(raw))):
                yield key
    for binding in well_known.bindings_of_policy(view, well_known.policy_id(policy)):
        if key := view.key(well_known.template_ref(binding)):
            yield key


def template_of_override(
    old: OverridePolicy | ClusterOverridePolicy | None, new: OverridePolicy | ClusterOverridePolicy | None, view: View
) -> Iterable[Key]:
    """A new override policy: the templates of propagation policies that wait for it (`dependentOverrides`)."""
    if old is not None or new is None:
        return
    for policy in (*view.all(PropagationPolicy, new.namespace), *view.all(ClusterPropagationPolicy)):
        if new.name in policy.spec.dependent_overrides:
            yield from templates_of_policy(None, policy, view)


def template_of_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """A deleted binding is recreated from its template."""
    if new is None and old is not None and (key := view.key(well_known.template_ref(old))):
        yield key


@controller(
    writes=["ResourceBinding", "ClusterResourceBinding"],
    changed=deserves_a_look,
    wakes=[
        Wake(PropagationPolicy, templates_of_policy),
        Wake(ClusterPropagationPolicy, templates_of_policy),
        Wake(OverridePolicy, template_of_override),
        Wake(ClusterOverridePolicy, template_of_override),
        Wake(ResourceBinding, template_of_binding),
        Wake(ClusterResourceBinding, template_of_binding),
    ],
)
def detect(template: Raw, view: View) -> Iterator[Wish]:
    metadata = template["metadata"]
    if metadata.get("deletionTimestamp") or RESERVED.fullmatch(metadata.get("namespace", "")):
        return
    if well_known.labels_of(template).get(well_known.CLAIMED_BY):
        return
    key = well_known.place_of_raw(template)
    known: Said | None = view.recall("template", key)
    policy, is_stale = claimant(template, view)
    if is_stale:
        yield from unclaimed(template, view)
        return
    if policy is None:
        policy = chosen(template, view)
    if policy is None or policy.metadata.deletion_timestamp is not None:
        yield from brought_along(template, view)
        yield Remember("template", key, said(template, None))
        return
    if policy_priority(selectors_of(policy), template):
        if missing := missing_overrides(policy, view):
            yield from waited_for(missing, template, policy, view)
            return
        claim = claimed(template, policy)
        if claim != template:
            yield Make(claim, seen=template)  # this write triggers the next reconcile, which creates the binding
            return
        current = said(template, policy)
        edited = known is None or known.by_the_user != current.by_the_user
        yield from apply(template, policy, view, by_the_user=edited, news=known != current)
        yield Remember("template", key, current)
    else:
        yield Remember("template", key, said(template, policy))


class Said(NamedTuple):
    """The inputs of a binding as digests; when two are equal, the binding does not change."""

    by_the_user: bytes
    """The template without what the control plane added."""
    marked: bytes
    """All labels and annotations of the template."""
    policy: str
    generation: int


def said(template: Raw, policy: Policy | None) -> Said:
    content = {key: value for key, value in template.items() if key not in ("status", "metadata")}
    metadata = {key: value for key, value in template["metadata"].items() if key not in NOT_USERS}
    sections = {section: metadata.pop(section, None) or {} for section in ("labels", "annotations")}
    users = [{key: value for key, value in section.items() if theirs(key)} for section in sections.values()]
    return Said(
        digest([content, metadata, users]),
        digest(sections),
        well_known.policy_id(policy) if policy is not None else "",
        policy.metadata.generation if policy is not None else 0,
    )


def digest(value: Any) -> bytes:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(text, digest_size=16).digest()


def theirs(key: str) -> bool:
    return ".karmada.io" not in key or key == well_known.SKIP_NAMESPACE


def claimant(template: Raw, view: View) -> tuple[Policy | None, bool]:
    """The policy that has claimed this template, and whether the claim refers to a policy that does not exist."""
    labels, annotations = well_known.labels_of(template), well_known.annotations_of(template)
    if well_known.PP_ID in labels and well_known.PP_NAME in annotations and well_known.PP_NAMESPACE in annotations:
        found: Policy | None = view.get(
            PropagationPolicy, annotations[well_known.PP_NAMESPACE], annotations[well_known.PP_NAME]
        )
        return found, found is None
    if well_known.CPP_ID in labels and well_known.CPP_NAME in annotations:
        found = view.get(ClusterPropagationPolicy, "", annotations[well_known.CPP_NAME])
        return found, found is None
    return None, False


def chosen(template: Raw, view: View) -> Policy | None:
    """The best matching policy: namespaced before cluster-wide, then by priority, selector specificity and name."""
    namespace = template["metadata"].get("namespace", "")
    own = best(view.all(PropagationPolicy, namespace), template) if namespace else None
    return own or best(view.all(ClusterPropagationPolicy), template)


def best(policies: Iterable[P], template: Raw) -> P | None:
    ranked = []
    for policy in policies:
        specificity = policy_priority(selectors_of(policy), template)
        if specificity and policy.metadata.deletion_timestamp is None:
            ranked.append((-(policy.spec.priority or 0), -specificity, policy.name, policy))
    return min(ranked, key=lambda entry: entry[:3])[3] if ranked else None


def claim_marks(policy: Policy) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """The labels and annotations of a claim; a namespaced claim removes those of a cluster-wide one."""
    if isinstance(policy, PropagationPolicy):
        labels: dict[str, str | None] = {well_known.PP_ID: well_known.policy_id(policy), well_known.CPP_ID: None}
        return labels, {
            well_known.PP_NAMESPACE: policy.namespace,
            well_known.PP_NAME: policy.name,
            well_known.CPP_NAME: None,
        }
    return {well_known.CPP_ID: well_known.policy_id(policy)}, {well_known.CPP_NAME: policy.name}


NO_CLAIM_LABELS: dict[str, str | None] = dict.fromkeys(well_known.POLICY_ID_LABELS)
NO_CLAIM_ANNOTATIONS: dict[str, str | None] = {
    well_known.PP_NAMESPACE: None,
    well_known.PP_NAME: None,
    well_known.CPP_NAME: None,
}


def claimed(template: Raw, policy: Policy) -> Raw:
    labels, annotations = claim_marks(policy)
    return well_known.remarked(template, labels=labels, annotations=annotations)


def unclaimed(template: Raw, view: View) -> Iterator[Wish]:
    """Remove the claim, from the binding first and then from the template; running workloads are kept."""
    metadata = template["metadata"]
    binding = well_known.binding_at(
        view, metadata.get("namespace", ""), binding_name(template["kind"], metadata["name"])
    )
    if binding is not None:
        yield without_claim(binding)
    yield Make(well_known.remarked(template, labels=NO_CLAIM_LABELS, annotations=NO_CLAIM_ANNOTATIONS), seen=template)


def without_claim(binding: Binding) -> Binding:
    return binding.but(
        metadata=binding.metadata.but(
            labels=well_known.merged(binding.metadata.labels, NO_CLAIM_LABELS),
            annotations=well_known.merged(binding.metadata.annotations, NO_CLAIM_ANNOTATIONS),
        )
    )


def apply(template: Raw, policy: Policy, view: View, *, by_the_user: bool, news: bool) -> Iterator[Wish]:
    """Create or update the binding; a Lazy policy applies only to changes by the user."""
    if by_the_user or policy.spec.activation_preference != "Lazy":
        yield from bind(template, policy, view, news=news)


def waited_for(missing: list[str], template: Raw, policy: Policy, view: View) -> Iterator[Wish]:
    """A policy is not applied and claims nothing until its dependent overrides exist."""
    if not view.profile.record_routine_events:  # upstream records no event
        text = f"{policy_text(policy)} failed: override policies not found: {', '.join(missing)}"
        yield Note(well_known.ref_of_raw(template), "ApplyPolicyFailed", text, SOURCE, "Warning")
    yield Again(30)


def missing_overrides(policy: Policy, view: View) -> list[str]:
    def exists(name: str) -> bool:
        if isinstance(policy, PropagationPolicy):
            return view.get(OverridePolicy, policy.namespace, name) is not None
        return view.get(ClusterOverridePolicy, "", name) is not None

    return [name for name in policy.spec.dependent_overrides if not exists(name)]


def policy_text(policy: Policy) -> str:
    if isinstance(policy, PropagationPolicy):
        return f"Apply policy({policy.namespace}/{policy.name})"
    return f"Apply cluster policy({policy.name})"


def bind(template: Raw, policy: Policy, view: View, *, news: bool) -> Iterator[Wish]:
    """Create the binding, or update the fields that the detector owns."""
    ref = well_known.ref_of_raw(template)
    try:
        wanted = binding_for(template, policy, view)
    except Unready as reason:
        yield Note(ref, "ApplyPolicyFailed", f"{policy_text(policy)} failed: {reason}", SOURCE, "Warning")
        yield Again(10)
        return
    seen = well_known.binding_at(view, wanted.namespace, wanted.name)
    if seen is not None:
        owner = next((o for o in seen.metadata.owner_references if o.controller), None)
        if owner is not None and owner.uid != ref.uid:
            yield Again(0.2)  # it belongs to a deleted object of the same name: garbage collection deletes it first
            return
        if not news and seen.spec.resource.uid == ref.uid:
            # The resourceVersion also changes with the status; without other changes the binding keeps the old one.
            wanted = wanted.but(spec=wanted.spec.but(resource=seen.spec.resource))
        wanted = updated(seen, wanted)
    if wanted == seen and not news:
        return
    if wanted.spec.replica_requirements is not None or wanted.spec.replicas or counts(template, view):
        yield Note(ref, "GetReplicasSucceed", "Get replicas of resource template successfully.", SOURCE, routine=True)
    if wanted == seen:
        return
    yield wanted
    yield Note(ref, "ApplyPolicySucceed", f"{policy_text(policy)} succeed", SOURCE)


def counts(template: Raw, view: View) -> bool:
    interpreter: Interpreter = view.part("interpreter")
    return interpreter.interprets((template["apiVersion"], template["kind"]), Operation.REPLICA)


class Unready(Exception):
    """The binding cannot be built yet; the message names what is missing."""


def binding_for(template: Raw, policy: Policy, view: View) -> Binding:
    """The binding of this template under this policy, without any scheduling result."""
    ref = well_known.ref_of_raw(template)
    labels, annotations = claim_marks(policy)
    name = binding_name(ref.kind, ref.name)
    cluster_wide = not ref.namespace
    own_label = well_known.CRB_ID if cluster_wide else well_known.RB_ID
    metadata = Meta(
        name=name,
        namespace=ref.namespace,
        labels=well_known.merged({own_label: well_known.permanent_id(ref.uid, ref.kind, name)}, labels),
        annotations=well_known.merged({}, annotations),
        finalizers=(well_known.CLUSTER_BINDING_FINALIZER if cluster_wide else well_known.BINDING_FINALIZER,),
        owner_references=(controller_reference(ref),),
    )
    spec = spec_for(template, ref, policy, view)
    return (ClusterResourceBinding if cluster_wide else ResourceBinding)(metadata=metadata, spec=spec)


def spec_for(template: Raw, ref: Ref, policy: Policy, view: View) -> BindingSpec:
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
    interpreter: Interpreter = view.part("interpreter")
    gvk = (template["apiVersion"], template["kind"])
    try:
        if feature_gates(view).components and interpreter.interprets(gvk, Operation.COMPONENT):
            found = interpreter.components(template)
            return spec.but(components=tuple(msgspec.convert(c, Component, strict=False) for c in found or ()))
        if interpreter.interprets(gvk, Operation.REPLICA):
            replicas, raw = interpreter.replicas(template)
            requirements = msgspec.convert(raw, ReplicaRequirements, strict=False) if raw is not None else None
            return spec.but(replicas=replicas, replica_requirements=requirements)
    except InterpreterError as fault:
        raise Unready(str(fault)) from fault
    return spec


def priority_of(policy: Policy, view: View) -> BindingSchedulePriority | None:
    wanted = policy.spec.schedule_priority
    if wanted is None:
        return None
    if wanted.priority_class_source != "KubePriorityClass":
        raise Unready(f"unsupported priority class source {wanted.priority_class_source}")
    found = view.get(PriorityClass, "", wanted.priority_class_name)
    if found is None:
        raise Unready(f'priorityclasses.scheduling.k8s.io "{wanted.priority_class_name}" not found')
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


def updated(seen: Binding, wanted: Binding) -> Binding:
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
    own_label = well_known.CRB_ID if well_known.cluster_wide(seen) else well_known.RB_ID
    kept_id = {own_label: seen.metadata.labels[own_label]} if own_label in seen.metadata.labels else {}
    metadata = seen.metadata.but(
        labels=well_known.merged(seen.metadata.labels, NO_CLAIM_LABELS) | wanted.metadata.labels | kept_id,
        annotations=well_known.merged(seen.metadata.annotations, NO_CLAIM_ANNOTATIONS) | wanted.metadata.annotations,
        finalizers=tuple(dict.fromkeys((*seen.metadata.finalizers, *wanted.metadata.finalizers))),
        owner_references=wanted.metadata.owner_references,
    )
    return seen.but(metadata=metadata, spec=spec)
