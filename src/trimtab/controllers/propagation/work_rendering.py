"""Renders the Work of one target cluster from template, binding and override policies."""

from collections.abc import Sequence
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
from trimtab.interpret.prune import prune

OVERRIDE_SOURCE = "override-manager"
OVERRIDE_API_VERSION = "policy.karmada.io/v1alpha1"


class RenderedWork(NamedTuple):
    work: Work
    events: list[RecordEvent]


def is_workload(binding: Binding) -> bool:
    spec = binding.spec
    return spec.replicas > 0 or spec.replica_requirements is not None or bool(spec.components)


class WorkRenderer:
    """Renders the Works of one binding; what is the same for all clusters is found once."""

    def __init__(self, binding: Binding, template: Raw, targets: list[TargetCluster], view: View) -> None:
        resource = binding.spec.resource
        self._binding = binding
        self._template = template
        self._view = view
        self._pruned = prune(template)
        self._revises_replicas = is_workload(binding) and view.interpreter.interprets(
            (template["apiVersion"], template["kind"]), Operation.REVISE_REPLICA
        )
        self._completions = divide_completions(binding, template, targets)
        self._override_policies = override_policies(template, view)
        self._name = work_name(resource.kind, resource.name, resource.namespace)
        self._binding_id = well_known.binding_id(binding)
        self._binding_label, links = links_to_binding(binding)
        self._annotations = {well_known.CONFLICT_RESOLUTION: conflict_resolution(template, binding), **links}

    def render(self, target: TargetCluster) -> RenderedWork:
        """The Work for one target cluster. Raises `InterpreterError` or `OverrideError`."""
        binding, cluster = self._binding, target.name
        manifest = self._pruned
        if self._revises_replicas:
            manifest = self._view.interpreter.revise(manifest, target.replicas)
        if cluster in self._completions:
            manifest = {**manifest, "spec": {**manifest["spec"], "completions": self._completions[cluster]}}
        done = override_manifest(manifest, cluster, self._override_policies, self._view)
        metadata = self._metadata(cluster)
        manifest = with_tracking_metadata(done.obj, self._template, metadata)
        manifest = with_preserved_state(manifest, binding, cluster)
        if applied := applied_override_annotations(done):
            metadata = metadata.but(annotations=metadata.annotations | applied)
        work = Work(
            metadata=metadata,
            spec=WorkSpec(
                workload=WorkloadTemplate(manifests=(manifest,)),
                suspend_dispatching=is_suspended(binding, cluster),
                preserve_resources_on_deletion=bool(binding.spec.preserve_resources_on_deletion),
            ),
        )
        return RenderedWork(work, override_events(binding, (*done.cluster_wide, *done.namespaced), cluster))

    def _metadata(self, cluster: str) -> Meta:
        """The metadata of the Work, with labels and annotations that link it to its binding."""
        namespace = well_known.execution_namespace(cluster)
        own = self._binding_id
        id_ = work_id(namespace, self._name, self._view) or well_known.permanent_id(own, cluster)
        return Meta(
            namespace=namespace,
            name=self._name,
            labels={well_known.WORK_ID: id_, self._binding_label: own},
            annotations=self._annotations.copy(),
            finalizers=(well_known.WORK_FINALIZER,),
        )


def links_to_binding(binding: Binding) -> tuple[str, dict[str, str]]:
    """The label of a Work that has the id of its binding, and the annotations that name the binding."""
    if well_known.is_cluster_scoped(binding):
        return well_known.CRB_ID, {well_known.CRB_NAME: binding.name}
    return well_known.RB_ID, {well_known.RB_NAMESPACE: binding.namespace, well_known.RB_NAME: binding.name}


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


def override_policies(template: Raw, view: View) -> list[Raw]:
    """The override policies that may select the template."""
    namespace = template["metadata"].get("namespace", "")
    return [
        *view.raws(OVERRIDE_API_VERSION, "ClusterOverridePolicy"),
        *(view.raws(OVERRIDE_API_VERSION, "OverridePolicy", namespace) if namespace else ()),
    ]


def override_manifest(manifest: Raw, cluster: str, policies: list[Raw], view: View) -> OverrideResult:
    """The manifest after all of these override policies that select it for this cluster. Raises `OverrideError`."""
    if not policies:
        return OverrideResult(manifest)
    where = view.raw(Ref("cluster.karmada.io/v1alpha1", "Cluster", "", cluster))
    keep_identity = view.profile.overrides_keep_identity
    return apply_overrides(manifest, where or {"metadata": {"name": cluster}}, policies, keep_identity=keep_identity)


def applied_override_annotations(done: OverrideResult) -> dict[str, str]:
    """The annotations that list the applied override rules."""
    listed = {well_known.APPLIED_CLUSTER_OVERRIDES: done.cluster_wide, well_known.APPLIED_OVERRIDES: done.namespaced}
    return {annotation: applied_overrides_annotation(rules) for annotation, rules in listed.items() if rules}


def override_events(binding: Binding, rules: Sequence[AppliedRule], cluster: str) -> list[RecordEvent]:
    """One event per override policy that was applied."""
    if not rules:
        return []
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
