"""Renders the Work of one target cluster from template, binding and override policies."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.kinds.work import Binding, TargetCluster, Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import RecordEvent, Ref, View
from trimtab.decide.divide import apportion
from trimtab.interpret.names import fnv1a, work_name
from trimtab.interpret.operations import Operation
from trimtab.interpret.overrides.overrides import (
    AppliedRule,
    OverrideError,
    OverrideResult,
    applied_overrides_annotation,
    apply_overrides,
)

OVERRIDE_SOURCE = "override-manager"
OVERRIDE_API_VERSION = "policy.karmada.io/v1alpha1"


class RenderedWork(NamedTuple):
    work: Work
    events: list[RecordEvent]


def is_workload(binding: Binding) -> bool:
    spec = binding.spec
    return spec.replicas > 0 or spec.replica_requirements is not None or bool(spec.components)


def render_work(
    binding: Binding, target: TargetCluster, template: Raw, pruned: Raw, completions: Mapping[str, int], view: View
) -> RenderedWork:
    """The Work for one target cluster; `pruned` is the template without server-side fields.

    Raises `Uninterpretable` or `OverrideFault`.
    """
    interpreter = view.interpreter
    manifest = pruned
    if is_workload(binding) and interpreter.interprets(
        (template["apiVersion"], template["kind"]), Operation.REVISE_REPLICA
    ):
        manifest = interpreter.revise(manifest, target.replicas)
    if target.name in completions:
        manifest = {**manifest, "spec": {**manifest["spec"], "completions": completions[target.name]}}
    done = override_manifest(manifest, target.name, view)
    metadata = work_metadata(binding, target.name, conflict_resolution(template, binding), view)
    manifest = with_tracking_metadata(done.obj, template, metadata)
    manifest = with_preserved_state(manifest, binding, target.name)
    work = Work(
        metadata=metadata.but(annotations=metadata.annotations | applied_override_annotations(done)),
        spec=WorkSpec(
            workload=WorkloadTemplate(manifests=(manifest,)),
            suspend_dispatching=is_suspended(binding, target.name),
            preserve_resources_on_deletion=bool(binding.spec.preserve_resources_on_deletion),
        ),
    )
    return RenderedWork(work, override_events(binding, (*done.cluster_wide, *done.namespaced), target.name))


def work_metadata(binding: Binding, cluster: str, resolution: str, view: View) -> Meta:
    """The metadata of the Work, with labels and annotations that link it to its binding."""
    resource = binding.spec.resource
    own = well_known.binding_id(binding)
    namespace = well_known.execution_namespace(cluster)
    name = work_name(resource.kind, resource.name, resource.namespace)
    labels = {well_known.WORK_ID: work_id(namespace, name, view) or well_known.permanent_id(own, cluster)}
    annotations = {well_known.CONFLICT_RESOLUTION: resolution}
    if well_known.is_cluster_scoped(binding):
        labels[well_known.CRB_ID] = own
        annotations[well_known.CRB_NAME] = binding.name
    else:
        labels[well_known.RB_ID] = own
        annotations |= {well_known.RB_NAMESPACE: binding.namespace, well_known.RB_NAME: binding.name}
    return Meta(
        namespace=namespace,
        name=name,
        labels=labels,
        annotations=annotations,
        finalizers=(well_known.WORK_FINALIZER,),
    )


def work_id(namespace: str, name: str, view: View) -> str:
    """The id that the Work has: one that another control plane drew stays, because the object in the member has it too."""
    work = view.get(Work, namespace, name)
    return work.metadata.labels.get(well_known.WORK_ID, "") if work is not None else ""


def conflict_resolution(template: Raw, binding: Binding) -> str:
    """The annotation of the template wins over the policy."""
    annotated = well_known.annotations_of(template).get(well_known.CONFLICT_RESOLUTION, "")
    if annotated in ("overwrite", "abort"):
        return annotated
    return "overwrite" if binding.spec.conflict_resolution == "Overwrite" else "abort"


def is_suspended(binding: Binding, cluster: str) -> bool:
    suspension = binding.spec.suspension
    if suspension is None:
        return False
    some = suspension.dispatching_on_clusters
    return bool(suspension.dispatching) or (some is not None and cluster in some.cluster_names)


def with_tracking_metadata(manifest: Raw, template: Raw, work: Meta) -> Raw:
    """The manifest with the labels and annotations that mark the member's object as managed by this Work."""
    labels: dict[str, str] = {**well_known.labels_of(manifest), **work.labels, well_known.MANAGED: "true"}
    annotations: dict[str, str] = {
        **well_known.annotations_of(manifest),
        **work.annotations,
        well_known.WORK_NAMESPACE: work.namespace,
        well_known.WORK_NAME: work.name,
        well_known.TEMPLATE_UID: template["metadata"].get("uid", ""),
    }
    if generation := template["metadata"].get("generation"):
        annotations[well_known.TEMPLATE_GENERATION] = str(generation)
    annotations[well_known.MANAGED_LABELS] = ",".join(sorted(labels))
    annotations[well_known.MANAGED_ANNOTATIONS] = ",".join(sorted({*annotations, well_known.MANAGED_ANNOTATIONS}))
    return well_known.with_metadata(manifest, labels=labels, annotations=annotations)


def with_preserved_state(manifest: Raw, binding: Binding, cluster: str) -> Raw:
    """The manifest with the labels that preserve the state of a workload which failed over to a single cluster."""
    tasks = binding.spec.graceful_eviction_tasks
    if len(binding.spec.clusters) != 1 or not tasks:
        return manifest
    last = tasks[-1]
    moved = last.purge_mode in well_known.IMMEDIATE_PURGE_MODES and cluster not in last.clusters_before_failover
    if not moved or not last.preserved_label_state:
        return manifest
    return well_known.with_metadata(manifest, labels=last.preserved_label_state, annotations={})


def override_manifest(manifest: Raw, cluster: str, view: View) -> OverrideResult:
    """The manifest after all override policies that select it for this cluster. Raises `OverrideFault`."""
    namespace = manifest["metadata"].get("namespace", "")
    policies = [
        *view.raws(OVERRIDE_API_VERSION, "ClusterOverridePolicy"),
        *(view.raws(OVERRIDE_API_VERSION, "OverridePolicy", namespace) if namespace else ()),
    ]
    if not policies:
        return OverrideResult(manifest)
    where = view.raw(Ref("cluster.karmada.io/v1alpha1", "Cluster", "", cluster))
    keep_identity = view.profile.overrides_keep_identity
    return apply_overrides(manifest, where or {"metadata": {"name": cluster}}, policies, keep_identity=keep_identity)


def applied_override_annotations(done: OverrideResult) -> dict[str, str]:
    """The annotations that list the applied override rules."""
    listed = {well_known.APPLIED_CLUSTER_OVERRIDES: done.cluster_wide, well_known.APPLIED_OVERRIDES: done.namespaced}
    return {annotation: applied_overrides_annotation(rules) for annotation, rules in listed.items() if rules}


def override_events(binding: Binding, rules: Iterable[AppliedRule], cluster: str) -> list[RecordEvent]:
    """One event per override policy that was applied."""
    texts = dict.fromkeys(f"Apply {describe_rule(rule)} for cluster({cluster}) succeed." for rule in rules)
    about = well_known.template_ref(binding)
    return [RecordEvent(about, "ApplyOverridePolicySucceed", text, OVERRIDE_SOURCE) for text in texts]


def override_failure_events(binding: Binding, fault: OverrideError, cluster: str) -> list[RecordEvent]:
    """Events for the policies applied so far and for the one that failed; the caller reports the cause."""
    text = f"Apply {describe_rule(fault.rule)} for cluster({cluster}) failed."
    failed = RecordEvent(
        well_known.template_ref(binding), "ApplyOverridePolicyFailed", text, OVERRIDE_SOURCE, "Warning"
    )
    return [*override_events(binding, fault.applied_before, cluster), failed]


def describe_rule(rule: AppliedRule) -> str:
    return f"override policy({rule.policy})" if rule.namespace else f"cluster override policy({rule.policy})"


def divide_completions(binding: Binding, template: Raw, targets: list[TargetCluster]) -> dict[str, int]:
    """The completions of each cluster for a Job whose replicas are divided, in the same proportion."""
    placement = binding.spec.placement
    scheduling = placement.replica_scheduling if placement is not None else None
    completions = (template.get("spec") or {}).get("completions")
    if (
        template["kind"] != "Job"
        or scheduling is None
        or scheduling.replica_scheduling_type != "Divided"
        or not binding.spec.replicas
        or completions is None
    ):
        return {}
    replicas = {target.name: target.replicas for target in targets}
    names = sorted(replicas)
    weights = [replicas[name] for name in names]
    shares = apportion(int(completions), weights, last_wins_ties=fnv1a(binding.spec.resource.uid) % 2 == 1)
    return dict(zip(names, shares, strict=True))
