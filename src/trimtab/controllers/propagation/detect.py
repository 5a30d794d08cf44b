"""Matches templates with propagation policies and creates a binding for each template that a policy claims."""

import hashlib
import re
from collections import Counter
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
from trimtab.controllers.contract import (
    Effect,
    Ensure,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.propagation.dependencies import update_attached_binding
from trimtab.controllers.propagation.template_references import controller_reference, object_reference
from trimtab.controllers.quota.quota_usage import QuotaLedger, use_of
from trimtab.controllers.selection import RESUMED, runs_here
from trimtab.controllers.settings import setting
from trimtab.interpret.match import NO_MATCH, policy_priority, selector_priority
from trimtab.interpret.names import binding_name
from trimtab.interpret.operations import InterpreterError, Operation

SOURCE = "resource-detector"
MATCH_POLICY = "MatchPolicy"
"""The step in which the best policy of a template is searched."""
QUOTA_RETRY_SECONDS = 30
MAX_COMPARISONS = 2000
"""Selectors times templates that are compared when a policy changes; beyond it every template looks for its policy itself."""
RESERVED_NAMESPACES = re.compile(r"karmada-system|karmada-cluster|karmada-es-.*|kube-.*|trimtab-system")
OWN_NAMESPACE = "own-namespace"
"""An internal setting: the namespace in which the control plane itself runs, if it is another one."""
SERVER_FIELDS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
P = TypeVar("P", bound=Policy)
Place = tuple[str, str, str | None]
"""API version, kind and namespace of templates; without a namespace all of them."""


def content_changed(old: Raw | None, new: Raw) -> bool:
    """Whether anything but the status, managedFields and resourceVersion changed."""
    if old is None:
        return True
    if any(old.get(key) != value for key, value in new.items() if key not in ("metadata", "status")) or any(
        key not in new for key in old if key != "status"
    ):
        return True
    return _without_server_fields(old["metadata"]) != _without_server_fields(new["metadata"])


def _without_server_fields(metadata: Raw) -> Raw:
    return {key: value for key, value in metadata.items() if key not in ("managedFields", "resourceVersion")}


def specificity_of(policy: Any, template: Raw) -> int:
    """How specifically a policy selects a template; 0 not at all. Most of its selectors are for other objects."""
    selectors = policy.spec.resource_selectors
    version, kind, name = template.get("apiVersion"), template.get("kind"), template["metadata"].get("name")
    candidates = [
        selector
        for selector in selectors
        if selector.kind == kind and selector.api_version == version and selector.name in ("", name)
    ]
    return policy_priority(candidates, template) if candidates or not selectors else NO_MATCH


def is_reserved(namespace: str, view: View) -> bool:
    """Whether it is a namespace of Kubernetes or of a control plane, with everything in it: nothing there is propagated."""
    if not namespace:
        return False
    return bool(RESERVED_NAMESPACES.fullmatch(namespace)) or namespace == view.settings.get(OWN_NAMESPACE)


def is_generated(template: Raw, view: View) -> bool:
    """Whether every cluster makes an object of this name for itself, so that a copy of it would break a member."""
    metadata = template["metadata"]
    place = (template.get("kind"), metadata.get("namespace", ""), metadata.get("name"))
    is_known = place == ("Service", "default", "kubernetes") or (place[0], place[2]) == (
        "ConfigMap",
        "kube-root-ca.crt",
    )
    return is_known and template.get("apiVersion") == "v1" and view.profile.generated_objects_stay


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
    for raw in _selected_templates(policy, view):
        if key := view.key(well_known.ref_of_raw(raw)):
            yield key
    for binding in well_known.bindings_of_policy(view, well_known.policy_id(policy)):
        if key := view.key(well_known.template_ref(binding)):
            yield key


def places_of(policy: Policy) -> list[Place]:
    """Where the templates of each selector are; many selectors may name one place."""
    return [
        (selector.api_version, selector.kind, policy.namespace or selector.namespace or None)
        for selector in policy.spec.resource_selectors
    ]


def _selected_templates(policy: Policy, view: View) -> Iterator[Raw]:
    """The templates that a policy selects; all of a place where comparing them with its selectors would take long."""
    places = places_of(policy)
    raws = {place: view.raws(*place) for place in dict.fromkeys(places)}
    by_name = {place: _by_name(found) for place, found in raws.items()}
    unnamed = Counter(
        place for place, selector in zip(places, policy.spec.resource_selectors, strict=True) if not selector.name
    )
    wide = {place for place, count in unnamed.items() if count * len(raws[place]) > MAX_COMPARISONS}
    for place in wide:
        yield from raws[place]
    for place, selector in zip(places, policy.spec.resource_selectors, strict=True):
        if place not in wide:
            candidates = by_name[place].get(selector.name, ()) if selector.name else raws[place]
            yield from (raw for raw in candidates if selector_priority(selector, raw))


def templates_of_override(
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
    predicate=content_changed,
    triggers=[
        Trigger(PropagationPolicy, templates_of_policy),
        Trigger(ClusterPropagationPolicy, templates_of_policy),
        Trigger(OverridePolicy, templates_of_override),
        Trigger(ClusterOverridePolicy, templates_of_override),
        Trigger(ResourceBinding, template_of_binding),
        Trigger(ClusterResourceBinding, template_of_binding),
    ],
    resumes=True,
)
def detect(template: Raw, view: View) -> Iterator[Effect]:
    metadata = template["metadata"]
    if metadata.get("deletionTimestamp") or is_reserved(metadata.get("namespace", ""), view):
        return
    if is_generated(template, view):
        return
    if well_known.labels_of(template).get(well_known.CLAIMED_BY):
        return
    key = well_known.ref_without_uid(template)
    known = view.recall(TEMPLATE, key)
    policy, is_stale = claiming_policy(template, view)
    if is_stale:
        yield from release_claim(template, view)
        return
    if policy is None:
        policy = look_for_policy(template, view)
    if policy is None or policy.metadata.deletion_timestamp is not None:
        yield from update_attached_binding(template, view)
        yield RememberInProcess(TEMPLATE, key, template_state(template, None))
        return
    if specificity_of(policy, template):
        if missing := missing_overrides(policy, view):
            yield from wait_for_overrides(missing, template, policy, view)
            return
        claim = with_claim(template, policy)
        if claim != template:
            yield Ensure(claim, seen=template)  # this write triggers the next reconcile, which creates the binding
            return
        current = template_state(template, policy)
        edited = known is None or known.user_content != current.user_content
        is_changed = known != current and not (known is None and finds_settled_bindings(view))
        yield from apply_policy(template, policy, view, user_edited=edited, is_changed=is_changed)
        yield RememberInProcess(TEMPLATE, key, current)
    else:
        yield RememberInProcess(TEMPLATE, key, template_state(template, policy))


def finds_settled_bindings(view: View) -> bool:
    """Whether a template that this process sees for the first time needs no write as long as its binding fits.

    What changed in it while no controller ran reaches the Works without: `dispatch` renders all of them when it starts. It does
    not in a process that resumed from saved caches, where only templates that have changed come here.
    """
    return view.profile.silent_restarts and runs_here("dispatch", view) and not view.settings.get(RESUMED)


class TemplateState(NamedTuple):
    """The inputs of a binding as digests; when two are equal, the binding does not change."""

    user_content: bytes
    """The template without what the control plane added."""
    metadata: bytes
    """All labels and annotations of the template."""
    policy: str
    generation: int


TEMPLATE: Topic[Ref, TemplateState] = Topic("template")


def template_state(template: Raw, policy: Policy | None) -> TemplateState:
    content = {key: value for key, value in template.items() if key not in ("status", "metadata")}
    metadata = {key: value for key, value in template["metadata"].items() if key not in SERVER_FIELDS}
    sections = {section: metadata.pop(section, None) or {} for section in ("labels", "annotations")}
    users = [{key: value for key, value in section.items() if is_user_key(key)} for section in sections.values()]
    return TemplateState(
        digest([content, metadata, users]),
        digest(sections),
        well_known.policy_id(policy) if policy is not None else "",
        policy.metadata.generation if policy is not None else 0,
    )


def digest(value: Any) -> bytes:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(text, digest_size=16).digest()


def is_user_key(key: str) -> bool:
    return ".karmada.io" not in key or key == well_known.SKIP_NAMESPACE


def claiming_policy(template: Raw, view: View) -> tuple[Policy | None, bool]:
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


def look_for_policy(template: Raw, view: View) -> Policy | None:
    """The best matching policy; the search is reported to an observer, if there is one."""
    if (observer := view.step_observer) is None:
        return best_policy(template, view)
    with observer.measure(MATCH_POLICY):
        return best_policy(template, view)


def best_policy(template: Raw, view: View) -> Policy | None:
    """The best matching policy: namespaced before cluster-wide, then by priority, selector specificity and name."""
    namespace = template["metadata"].get("namespace", "")
    own = best_match(view.all(PropagationPolicy, namespace), template) if namespace else None
    return own or best_match(view.all(ClusterPropagationPolicy), template)


def best_match(policies: Iterable[P], template: Raw) -> P | None:
    ranked = []
    for policy in policies:
        specificity = specificity_of(policy, template)
        if specificity and policy.metadata.deletion_timestamp is None:
            ranked.append((-(policy.spec.priority or 0), -specificity, policy.name, policy))
    return min(ranked, key=lambda entry: entry[:3])[3] if ranked else None


def _by_name(templates: Iterable[Raw]) -> dict[str, list[Raw]]:
    found: dict[str, list[Raw]] = {}
    for template in templates:
        found.setdefault(template["metadata"]["name"], []).append(template)
    return found


def claim_metadata(policy: Policy) -> tuple[dict[str, str | None], dict[str, str | None]]:
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


def with_claim(template: Raw, policy: Policy) -> Raw:
    labels, annotations = claim_metadata(policy)
    return well_known.with_metadata(template, labels=labels, annotations=annotations)


def release_claim(template: Raw, view: View) -> Iterator[Effect]:
    """Remove the claim, from the binding first and then from the template; running workloads are kept."""
    metadata = template["metadata"]
    binding = well_known.binding_at(
        view, metadata.get("namespace", ""), binding_name(template["kind"], metadata["name"])
    )
    if binding is not None:
        yield binding_without_claim(binding)
    yield template_without_claim(template)


def template_without_claim(template: Raw) -> Ensure:
    released = well_known.with_metadata(template, labels=NO_CLAIM_LABELS, annotations=NO_CLAIM_ANNOTATIONS)
    return Ensure(released, seen=template)


def binding_without_claim(binding: Binding) -> Binding:
    return binding.but(
        metadata=binding.metadata.but(
            labels=well_known.with_changes(binding.metadata.labels, NO_CLAIM_LABELS),
            annotations=well_known.with_changes(binding.metadata.annotations, NO_CLAIM_ANNOTATIONS),
        )
    )


def apply_policy(template: Raw, policy: Policy, view: View, *, user_edited: bool, is_changed: bool) -> Iterator[Effect]:
    """Create or update the binding; a Lazy policy applies only to changes by the user."""
    if user_edited or policy.spec.activation_preference != "Lazy":
        yield from sync_binding(template, policy, view, is_changed=is_changed)


def wait_for_overrides(missing: list[str], template: Raw, policy: Policy, view: View) -> Iterator[Effect]:
    """A policy is not applied and claims nothing until its dependent overrides exist."""
    if not view.profile.record_routine_events:  # upstream records no event
        text = f"{describe_apply(policy)} failed: override policies not found: {', '.join(missing)}"
        yield RecordEvent(well_known.ref_of_raw(template), "ApplyPolicyFailed", text, SOURCE, "Warning")
    yield RequeueAfter(30)


def missing_overrides(policy: Policy, view: View) -> list[str]:
    def exists(name: str) -> bool:
        if isinstance(policy, PropagationPolicy):
            return view.get(OverridePolicy, policy.namespace, name) is not None
        return view.get(ClusterOverridePolicy, "", name) is not None

    return [name for name in policy.spec.dependent_overrides if not exists(name)]


def describe_apply(policy: Policy) -> str:
    if isinstance(policy, PropagationPolicy):
        return f"Apply policy({policy.namespace}/{policy.name})"
    return f"Apply cluster policy({policy.name})"


def sync_binding(template: Raw, policy: Policy, view: View, *, is_changed: bool) -> Iterator[Effect]:
    """Create the binding, or update the fields that the detector owns."""
    ref = well_known.ref_of_raw(template)
    try:
        wanted = binding_for(template, policy, view)
    except BindingNotReady as reason:
        yield RecordEvent(ref, "ApplyPolicyFailed", f"{describe_apply(policy)} failed: {reason}", SOURCE, "Warning")
        yield RequeueAfter(10)
        return
    seen = well_known.binding_at(view, wanted.namespace, wanted.name)
    if seen is not None:
        owner = next((o for o in seen.metadata.owner_references if o.controller), None)
        if owner is not None and owner.uid != ref.uid:
            yield RequeueAfter(
                0.2
            )  # it belongs to a deleted object of the same name: garbage collection deletes it first
            return
        if not is_changed and seen.spec.resource.uid == ref.uid:
            # The resourceVersion also changes with the status; without other changes the binding keeps the old one.
            wanted = wanted.but(spec=wanted.spec.but(resource=seen.spec.resource))
        wanted = merge_binding(seen, wanted)
    if wanted == seen and not is_changed:
        return
    if seen is not None and (why := QuotaLedger(view).charge(wanted.namespace, use_of(seen), use_of(wanted))):
        yield RecordEvent(ref, "ApplyPolicyFailed", f"{describe_apply(policy)} failed: {why}", SOURCE, "Warning")
        yield RequeueAfter(QUOTA_RETRY_SECONDS)
        return
    if wanted.spec.components:
        yield RecordEvent(
            ref, "GetComponentsSucceed", "Get components of resource template successfully.", SOURCE, routine=True
        )
    elif wanted.spec.replica_requirements is not None or wanted.spec.replicas or interprets_replicas(template, view):
        yield RecordEvent(
            ref, "GetReplicasSucceed", "Get replicas of resource template successfully.", SOURCE, routine=True
        )
    if wanted == seen:
        return
    yield wanted
    yield RecordEvent(ref, "ApplyPolicySucceed", f"{describe_apply(policy)} succeed", SOURCE)


def interprets_replicas(template: Raw, view: View) -> bool:
    interpreter = view.interpreter
    return interpreter.interprets((template["apiVersion"], template["kind"]), Operation.REPLICA)


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
