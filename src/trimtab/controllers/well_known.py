"""Well-known labels, annotations, finalizers, ids and indexes that link templates, policies, bindings and Works."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping

from trimtab.api.kind import kind_of
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, Work
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers.contract import Index, Ref, View
from trimtab.decide import reschedule_trigger

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
CONTROL_PLANE = "trimtab.dev/control-plane"
"""On an object in a member: the id of the control plane that manages it."""
UPDATE_STRATEGY = "trimtab.dev/update-strategy"
"""On a manifest of a Work: CreateOnly, ReadOnly, ServerSideApply or Completed (never written again, even when deleted);
without it, the member's object is kept equal to the manifest."""
FIELD_MANAGER = "trimtab.dev/field-manager"
"""With ServerSideApply: the field manager; a name that ends in `!` forces conflicts."""
IGNORE_FIELDS = "trimtab.dev/ignore-fields"
"""With ServerSideApply: which fields keep the member's value, and when; a JSON list."""
CONFIG_HASH = "open-cluster-management.io/config-spec-hash"
"""The hash of the manifest last applied; fields with OnSpokeChange are set again when it changes."""
EXECUTOR = "trimtab.dev/executor"
"""On a Work: the service account of the member, `namespace/name`, whose permissions limit what the Work may do."""
MANIFEST_WORK = "trimtab.dev/manifestwork"
"""On a Work and its objects: the ManifestWork that they come from."""
ON_DELETION = "trimtab.dev/deletion-policy"
"""On a manifest of a Work and its object: `Orphan` leaves the object in the member when the Work or the manifest is deleted."""
CONFLICT_RESOLUTION = "work.karmada.io/conflict-resolution"
TEMPLATE_UID = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"
MANAGED_ANNOTATIONS = "resourcetemplate.karmada.io/managed-annotations"
MANAGED_LABELS = "resourcetemplate.karmada.io/managed-labels"
CLAIMED_BY = "resourcetemplate.karmada.io/claimed-by"
APPLIED_PLACEMENT = reschedule_trigger.APPLIED_PLACEMENT
APPLIED_OVERRIDES = "policy.karmada.io/applied-overrides"
APPLIED_CLUSTER_OVERRIDES = "policy.karmada.io/applied-cluster-overrides"
DEPENDENCIES = "resourcebinding.karmada.io/dependencies"
TAINT_MANAGER = "TaintManager"
"""The producer of eviction tasks for untolerated taints."""
IMMEDIATE_PURGE_MODES = ("Directly", "Immediately")
"""Purge modes, of the old and the new API, that delete the old copy immediately."""
DEPENDED_BY = "resourcebinding.karmada.io/depended-by-"
REQUESTED_BY = "trimtab.dev/reschedule-request"
"""On a binding: the cause of its last reschedule request, the time of the request, the rebalancer, and the user behind it."""
REQUESTER = "trimtab.dev/requested-by"
"""On a WorkloadRebalancer or a drained Cluster: the user who asked for it."""
MOVE_MODE = "trimtab.dev/move-mode"
"""On a template: ReplacementFirst or AtOnce, for moves of every cause."""
APPROVAL = "trimtab.dev/approval"
"""On a policy: `Required` holds voluntary moves of its workloads until a person approves them."""
APPROVED_MOVE = "trimtab.dev/approved-move"
"""On a binding: the move that a person has approved, as `approval_text` writes it."""
DRAIN = "trimtab.dev/drain"
"""On a cluster: since when it is being drained."""
FORCE_LEAVE = "trimtab.dev/force-leave"
"""On a cluster: `true` deletes what is in the cluster at once when the Cluster is deleted."""
ADOPTED = "trimtab.dev/adopted"
"""On an object in a member: it existed before its Work, and stays there when the cluster leaves the fleet."""
PROFILE = "trimtab.dev/profile"
"""On a namespace: the profile for all objects in it."""
SKIP_NAMESPACE = "namespace.karmada.io/skip-auto-propagation"

POLICY_FINALIZER = "karmada.io/propagation-policy-controller"
CLUSTER_POLICY_FINALIZER = "karmada.io/cluster-propagation-policy-controller"
BINDING_FINALIZER = "karmada.io/binding-controller"
CLUSTER_BINDING_FINALIZER = "karmada.io/cluster-resource-binding-controller"
WORK_FINALIZER = "karmada.io/execution-controller"
CLUSTER_FINALIZER = "karmada.io/cluster-controller"
DEPENDENCIES_FINALIZER = "karmada.io/binding-dependencies-distributor"

EXECUTION_PREFIX = "karmada-es-"
BINDINGS = (ResourceBinding, ClusterResourceBinding)
POLICIES = (PropagationPolicy, ClusterPropagationPolicy)
POLICY_ID_LABELS = (PP_ID, CPP_ID)
BINDING_MANAGED_BY = "binding.karmada.io/managed-by"
"""On a binding that a controller made without a policy: the kind of the object that it serves."""

_ID_NAMESPACE = uuid.UUID("6a1d7a39-5c7b-4f0e-9c53-0c2a3f0f8d11").bytes
_VERSION_AND_VARIANT = (0xF << 76) | (0x3 << 62)
_VERSION_5_OF_RFC_4122 = (0x5 << 76) | (0x2 << 62)


def permanent_id(*parts: str) -> str:
    """A UUID of version 5: a restart or a second control plane computes the same id.

    `uuid.uuid5` takes several times as long, and every Work needs one.
    """
    named = hashlib.sha1(_ID_NAMESPACE + "/".join(parts).encode(), usedforsecurity=False).digest()
    bits = int.from_bytes(named[:16]) & ~_VERSION_AND_VARIANT | _VERSION_5_OF_RFC_4122
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def execution_namespace(cluster: str) -> str:
    return EXECUTION_PREFIX + cluster


def cluster_of(namespace: str) -> str:
    """The cluster whose execution namespace this is; empty for any other namespace."""
    return namespace.removeprefix(EXECUTION_PREFIX) if namespace.startswith(EXECUTION_PREFIX) else ""


def binding_id(binding: Binding) -> str:
    return binding.metadata.labels.get(CRB_ID if is_cluster_scoped(binding) else RB_ID, "")


def is_cluster_scoped(binding: Binding) -> bool:
    return isinstance(binding, ClusterResourceBinding)


def binding_at(view: View, namespace: str, name: str) -> Binding | None:
    """The ResourceBinding, or with an empty namespace the ClusterResourceBinding."""
    return view.get(ResourceBinding, namespace, name) if namespace else view.get(ClusterResourceBinding, "", name)


def binding_key_of_work(work: Work) -> Key | None:
    """The key of the binding that a Work was made for; None when the Work belongs to no binding."""
    annotations = work.metadata.annotations
    if RB_NAME in annotations:
        return Key(kind_of(ResourceBinding).id, annotations.get(RB_NAMESPACE, ""), annotations[RB_NAME])
    if CRB_NAME in annotations:
        return Key(kind_of(ClusterResourceBinding).id, "", annotations[CRB_NAME])
    return None


def qualified_name(subject: Object | Ref) -> str:
    """`namespace/name`, or the name alone for cluster-wide objects."""
    return f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name


def format_binding(binding: Binding) -> str:
    """The binding as upstream's events name it."""
    return f"{kind_of(binding).name}({qualified_name(binding)})"


def template_ref(binding: Binding) -> Ref:
    resource = binding.spec.resource
    return Ref(resource.api_version, resource.kind, resource.namespace, resource.name, resource.uid)


def ref_of(subject: Object) -> Ref:
    kind, metadata = kind_of(subject), subject.metadata
    return Ref(kind.api_version, kind.name, metadata.namespace, metadata.name, metadata.uid)


def ref_of_raw(raw: Raw) -> Ref:
    metadata = raw["metadata"]
    return Ref(raw["apiVersion"], raw["kind"], metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))


def ref_without_uid(raw: Raw) -> Ref:
    """A reference by name only, so that a recreated object has the same reference."""
    metadata = raw["metadata"]
    return Ref(raw["apiVersion"], raw["kind"], metadata.get("namespace", ""), metadata["name"])


def labels_of(raw: Raw) -> dict[str, str]:
    return raw["metadata"].get("labels") or {}


def annotations_of(raw: Raw) -> dict[str, str]:
    return raw["metadata"].get("annotations") or {}


def profile_namespace(raw: Raw) -> str:
    """The namespace whose profile applies: for a Work that of its binding, not the execution namespace."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations")
    namespace: str = (annotations and annotations.get(RB_NAMESPACE)) or metadata.get("namespace", "")
    return namespace


def profile_namespace_of(obj: Object) -> str:
    """The same for a typed object."""
    return obj.metadata.annotations.get(RB_NAMESPACE) or obj.namespace


def with_metadata(raw: Raw, *, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]) -> Raw:
    """The object with these labels and annotations set, or removed where the value is None."""
    metadata = dict(raw["metadata"])
    for section, changes in (("labels", labels), ("annotations", annotations)):
        if not changes and metadata.get(section):
            continue
        entries = with_changes(metadata.get(section) or {}, changes)
        if entries or section in metadata:
            metadata[section] = entries
    return {**raw, "metadata": metadata}


def with_changes(entries: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Labels or annotations with some entries set, or removed where the value is None."""
    after = {**entries, **changes}
    return {key: value for key, value in after.items() if value is not None}


def policy_id_label(policy: Policy) -> str:
    """The label that holds the id of the policy, on the policy itself and on what it claims."""
    return PP_ID if isinstance(policy, PropagationPolicy) else CPP_ID


def policy_id(policy: Policy) -> str:
    return policy.metadata.labels.get(policy_id_label(policy)) or permanent_id(policy.metadata.uid)


def policy_ids_of_binding(binding: Binding) -> Iterable[str]:
    return [binding.metadata.labels[label] for label in POLICY_ID_LABELS if label in binding.metadata.labels]


def clusters_of_binding(binding: Binding) -> Iterable[str]:
    names = {target.name for target in binding.spec.clusters}
    for snapshot in binding.spec.required_by:
        names.update(target.name for target in snapshot.clusters)
    return names | {task.from_cluster for task in binding.spec.graceful_eviction_tasks}


BINDINGS_BY_POLICY = Index("bindings of a policy", ResourceBinding, policy_ids_of_binding)
CLUSTER_BINDINGS_BY_POLICY = Index("cluster bindings of a policy", ClusterResourceBinding, policy_ids_of_binding)
BINDINGS_BY_CLUSTER = Index("bindings in a cluster", ResourceBinding, clusters_of_binding)
CLUSTER_BINDINGS_BY_CLUSTER = Index("cluster bindings in a cluster", ClusterResourceBinding, clusters_of_binding)


def bindings_of_policy(view: View, id_: str) -> list[Binding]:
    return [*view.by_index(BINDINGS_BY_POLICY, id_), *view.by_index(CLUSTER_BINDINGS_BY_POLICY, id_)]


def bindings_in_cluster(view: View, cluster: str) -> list[Binding]:
    return [*view.by_index(BINDINGS_BY_CLUSTER, cluster), *view.by_index(CLUSTER_BINDINGS_BY_CLUSTER, cluster)]


def all_bindings(view: View) -> list[Binding]:
    return [*view.all(ResourceBinding), *view.all(ClusterResourceBinding)]
