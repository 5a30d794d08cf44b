"""Labels, annotations, finalizers and names by which the objects of one propagation know each other."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Condition, Object, Raw
from trimtab.controllers.contract import Index, Ref, View

PP_ID = "propagationpolicy.karmada.io/permanent-id"
PP_NAMESPACE = "propagationpolicy.karmada.io/namespace"
PP_NAME = "propagationpolicy.karmada.io/name"
CPP_ID = "clusterpropagationpolicy.karmada.io/permanent-id"
CPP_NAME = "clusterpropagationpolicy.karmada.io/name"
RB_ID = "resourcebinding.karmada.io/permanent-id"
RB_NAMESPACE = "resourcebinding.karmada.io/namespace"
RB_NAME = "resourcebinding.karmada.io/name"
CRB_ID = "clusterresourcebinding.karmada.io/permanent-id"
CRB_NAME = "clusterresourcebinding.karmada.io/name"
WORK_ID = "work.karmada.io/permanent-id"
WORK_NAMESPACE = "work.karmada.io/namespace"
WORK_NAME = "work.karmada.io/name"
MANAGED = "karmada.io/managed"
SYSTEM = "karmada.io/system"
UPDATE_STRATEGY = "trimtab.dev/update-strategy"
"""Of one manifest of a Work: CreateOnly, ReadOnly, ServerSideApply or Completed (it is left alone, even when it is gone);
absent, the member's object is kept equal to it."""
FIELD_MANAGER = "trimtab.dev/field-manager"
"""With ServerSideApply: under which name; a name that ends in `!` takes fields over from others."""
IGNORE_FIELDS = "trimtab.dev/ignore-fields"
"""With ServerSideApply: which fields are left as they are in the member, and when; a JSON list."""
CONFIG_HASH = "open-cluster-management.io/config-spec-hash"
"""Of which manifest the member's object is; fields that may change there are set again when this changes."""
EXECUTOR = "trimtab.dev/executor"
"""Of a Work: the service account of the member, `namespace/name`, that must be allowed what the Work does."""
ON_DELETION = "trimtab.dev/on-deletion"
"""Of one manifest of a Work: `Orphan` leaves the object in the member when the Work, or the manifest, goes."""
CONFLICT_RESOLUTION = "work.karmada.io/conflict-resolution"
TEMPLATE_UID = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"
MANAGED_ANNOTATIONS = "resourcetemplate.karmada.io/managed-annotations"
MANAGED_LABELS = "resourcetemplate.karmada.io/managed-labels"
CLAIMED_BY = "resourcetemplate.karmada.io/claimed-by"
APPLIED_PLACEMENT = "policy.karmada.io/applied-placement"
APPLIED_OVERRIDES = "policy.karmada.io/applied-overrides"
APPLIED_CLUSTER_OVERRIDES = "policy.karmada.io/applied-cluster-overrides"
DEPENDENCIES = "resourcebinding.karmada.io/dependencies"
TAINT_MANAGER = "TaintManager"
"""Who asks for evictions from clusters with taints that nobody tolerates."""
DIRECTLY = ("Directly", "Immediately")
"""Purge modes, old and new, that take the old copy away at once."""
DEPENDED_BY = "resourcebinding.karmada.io/depended-by-"
ASKED_BY = "trimtab.dev/asked-by"
"""On a binding: why its fresh decision was asked for, for the stamp of which moment, and by which rebalancer."""
MOVE_MODE = "trimtab.dev/move-mode"
"""On a template: ReplacementFirst or AtOnce, for moves of every cause."""
DRAIN = "trimtab.dev/drain"
PROFILE = "trimtab.dev/profile"
"""Annotation of a namespace: the profile by which everything in it is treated."""
"""On a cluster: since when it is being emptied."""
SKIP_NAMESPACE = "namespace.karmada.io/skip-auto-propagation"

POLICY_FINALIZER = "karmada.io/propagation-policy-controller"
CLUSTER_POLICY_FINALIZER = "karmada.io/cluster-propagation-policy-controller"
BINDING_FINALIZER = "karmada.io/binding-controller"
CLUSTER_BINDING_FINALIZER = "karmada.io/cluster-resource-binding-controller"
WORK_FINALIZER = "karmada.io/execution-controller"
CLUSTER_FINALIZER = "karmada.io/cluster-controller"
DEPENDENCIES_FINALIZER = "karmada.io/binding-dependencies-distributor"

EXECUTION = "karmada-es-"
BINDINGS = (ResourceBinding, ClusterResourceBinding)
POLICIES = (PropagationPolicy, ClusterPropagationPolicy)

_IDS = uuid.UUID("6a1d7a39-5c7b-4f0e-9c53-0c2a3f0f8d11").bytes
_VERSION_AND_VARIANT = (0xF << 76) | (0x3 << 62)
_NAMED_OF_RFC_4122 = (0x5 << 76) | (0x2 << 62)


def permanent_id(*parts: str) -> str:
    """An id that a restart, or a second control plane, would give again: a UUID of version 5.

    It is spelled out here because the library takes several times as long, and every Work needs one.
    """
    named = hashlib.sha1(_IDS + "/".join(parts).encode(), usedforsecurity=False).digest()
    bits = int.from_bytes(named[:16]) & ~_VERSION_AND_VARIANT | _NAMED_OF_RFC_4122
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def execution_namespace(cluster: str) -> str:
    return EXECUTION + cluster


def cluster_of(namespace: str) -> str:
    """The cluster whose execution namespace this is; empty for any other namespace."""
    return namespace.removeprefix(EXECUTION) if namespace.startswith(EXECUTION) else ""


def binding_id(binding: Binding) -> str:
    return binding.metadata.labels.get(CRB_ID if cluster_wide(binding) else RB_ID, "")


def cluster_wide(binding: Binding) -> bool:
    return isinstance(binding, ClusterResourceBinding)


def binding_at(view: View, namespace: str, name: str) -> Binding | None:
    """Namespaced and cluster-wide bindings are one thing with an empty namespace."""
    return view.get(ResourceBinding, namespace, name) if namespace else view.get(ClusterResourceBinding, "", name)


def binding_text(binding: Binding) -> str:
    """How events name a binding."""
    kind = kind_of(binding).name
    return f"{kind}({binding.namespace}/{binding.name})" if binding.namespace else f"{kind}({binding.name})"


def template_ref(binding: Binding) -> Ref:
    resource = binding.spec.resource
    return Ref(resource.api_version, resource.kind, resource.namespace, resource.name, resource.uid)


def ref_of(thing: Object) -> Ref:
    kind = kind_of(thing)
    return Ref(kind.api_version, kind.name, thing.namespace, thing.name, thing.metadata.uid)


def ref_of_raw(raw: Raw) -> Ref:
    metadata = raw["metadata"]
    return Ref(raw["apiVersion"], raw["kind"], metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))


def place_of_raw(raw: Raw) -> Ref:
    """Where the object is, whichever one is there."""
    metadata = raw["metadata"]
    return Ref(raw["apiVersion"], raw["kind"], metadata.get("namespace", ""), metadata["name"])


def labels_of(raw: Raw) -> dict[str, str]:
    return raw["metadata"].get("labels") or {}


def annotations_of(raw: Raw) -> dict[str, str]:
    return raw["metadata"].get("annotations") or {}


def home_of(raw: Raw) -> str:
    """The namespace whose rules an object follows: a Work lies in that of its cluster, and belongs to its binding's."""
    return annotations_of(raw).get(RB_NAMESPACE) or raw["metadata"].get("namespace", "")


def remarked(raw: Raw, *, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> Raw:
    """The object with some labels and annotations set, or taken away where the value is None."""
    metadata = dict(raw["metadata"])
    for section, changes in (("labels", labels), ("annotations", annotations)):
        marks = merged(metadata.get(section) or {}, changes)
        if marks or section in metadata:
            metadata[section] = marks
    return {**raw, "metadata": metadata}


def merged(marks: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    after = {key: value for key, value in marks.items() if changes.get(key, "") is not None}
    after.update({key: value for key, value in changes.items() if value is not None})
    return after


def policy_id(policy: Policy) -> str:
    label = PP_ID if isinstance(policy, PropagationPolicy) else CPP_ID
    return policy.metadata.labels.get(label) or permanent_id(policy.metadata.uid)


def policy_ids_of_binding(binding: Binding) -> Iterable[str]:
    return [binding.metadata.labels[label] for label in (PP_ID, CPP_ID) if label in binding.metadata.labels]


def clusters_of_binding(binding: Binding) -> Iterable[str]:
    names = {target.name for target in binding.spec.clusters}
    for snapshot in binding.spec.required_by:
        names.update(target.name for target in snapshot.clusters)
    return names | {task.from_cluster for task in binding.spec.graceful_eviction_tasks}


BOUND_BY_POLICY = Index("bindings of a policy", ResourceBinding, policy_ids_of_binding)
BOUND_BY_CLUSTER_POLICY = Index("cluster bindings of a policy", ClusterResourceBinding, policy_ids_of_binding)
IN_CLUSTER = Index("bindings in a cluster", ResourceBinding, clusters_of_binding)
CLUSTER_WIDE_IN_CLUSTER = Index("cluster bindings in a cluster", ClusterResourceBinding, clusters_of_binding)


def bindings_of_policy(view: View, id_: str) -> list[Binding]:
    return [*view.having(BOUND_BY_POLICY, id_), *view.having(BOUND_BY_CLUSTER_POLICY, id_)]


def bindings_in(view: View, cluster: str) -> list[Binding]:
    return [*view.having(IN_CLUSTER, cluster), *view.having(CLUSTER_WIDE_IN_CLUSTER, cluster)]


def all_bindings(view: View) -> list[Binding]:
    return [*view.all(ResourceBinding), *view.all(ClusterResourceBinding)]


def condition_of(conditions: Iterable[Condition], type_: str) -> Condition | None:
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """The conditions with `new` among them; its transition time moves only when the status flips."""
    old = condition_of(conditions, new.type)
    if old is None:
        return (*conditions, new)
    if old.status == new.status:
        new = new.but(last_transition_time=old.last_transition_time)
    return tuple(new if c.type == new.type else c for c in conditions)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    found = condition_of(conditions, type_)
    return found is not None and found.status == "True"


def setting(view: View, name: str, default: Any) -> Any:
    return view.settings.get(name, default)


def all_of(faults: Iterable[str]) -> str:
    """Several faults as one, each said once."""
    texts = list(dict.fromkeys(faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def with_readiness(
    conditions: tuple[Condition, ...], reason: str, message: str, view: View, *, fault: bool = False
) -> tuple[Condition, ...]:
    """The three conditions that tools which roll things out ask of every kind of ours."""
    said = (("Ready", not fault, message), ("Reconciling", False, ""), ("Stalled", fault, message if fault else ""))
    for type_, holds, told in said:
        at = view.now.replace(microsecond=0)
        new = Condition(
            type=type_, status="True" if holds else "False", reason=reason, message=told, last_transition_time=at
        )
        conditions = with_condition(conditions, new)
    return conditions
