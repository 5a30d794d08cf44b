"""Template + binding + overrides -> what one cluster shall have."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import orjson

from trimtab.api.affinity import belongs
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterOverridePolicy, Override, OverridePolicy
from trimtab.api.kinds.work import Binding, TargetCluster, Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Meta, Raw
from trimtab.controllers import marks
from trimtab.controllers.contract import Note, View
from trimtab.decide.divide import apportion
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.match import policy_priority
from trimtab.interpret.names import fnv1a, work_name
from trimtab.interpret.operations import Operation
from trimtab.interpret.prune import prune
from trimtab.interpret.revise import override

OVERRIDE_SOURCE = "override-manager"


class Rendered(NamedTuple):
    work: Work
    notes: list[Note]


def is_workload(binding: Binding) -> bool:
    spec = binding.spec
    return spec.replicas > 0 or spec.replica_requirements is not None or bool(spec.components)


def render(
    binding: Binding, target: TargetCluster, template: Raw, completions: Mapping[str, int], view: View
) -> Rendered:
    """The Work for one target cluster. Raises `Uninterpretable` when a rule or an override fails."""
    cluster = view.get(Cluster, "", target.name)
    interpreter: Interpreter = view.part("interpreter")
    manifest = prune(template)
    if is_workload(binding) and interpreter.interprets(
        (template["apiVersion"], template["kind"]), Operation.REVISE_REPLICA
    ):
        manifest = interpreter.revise(manifest, target.replicas)
    if target.name in completions:
        manifest = {**manifest, "spec": {**manifest["spec"], "completions": completions[target.name]}}
    manifest, applied, notes = overridden(manifest, binding, cluster, view)
    envelope = envelope_for(binding, target.name, conflict_resolution(template, binding))
    manifest = marked(manifest, template, envelope)
    manifest = with_preserved_state(manifest, binding, target.name)
    work = Work(
        metadata=envelope.but(annotations=envelope.annotations | applied),
        spec=WorkSpec(
            workload=WorkloadTemplate(manifests=(manifest,)),
            suspend_dispatching=is_suspended(binding, target.name),
            preserve_resources_on_deletion=bool(binding.spec.preserve_resources_on_deletion),
        ),
    )
    return Rendered(work, notes)


def envelope_for(binding: Binding, cluster: str, resolution: str) -> Meta:
    """The metadata of the Work, by which it is known whose it is and for whom."""
    resource = binding.spec.resource
    own = marks.binding_id(binding)
    labels = {marks.WORK_ID: marks.permanent_id(own, cluster)}
    annotations = {marks.CONFLICT_RESOLUTION: resolution}
    if marks.cluster_wide(binding):
        labels[marks.CRB_ID] = own
        annotations[marks.CRB_NAME] = binding.name
    else:
        labels[marks.RB_ID] = own
        annotations |= {marks.RB_NAMESPACE: binding.namespace, marks.RB_NAME: binding.name}
    return Meta(
        namespace=marks.execution_namespace(cluster),
        name=work_name(resource.kind, resource.name, resource.namespace),
        labels=labels,
        annotations=annotations,
        finalizers=(marks.WORK_FINALIZER,),
    )


def conflict_resolution(template: Raw, binding: Binding) -> str:
    asked = marks.annotations_of(template).get(marks.CONFLICT_RESOLUTION, "")
    if asked in ("overwrite", "abort"):
        return asked
    return "overwrite" if binding.spec.conflict_resolution == "Overwrite" else "abort"


def is_suspended(binding: Binding, cluster: str) -> bool:
    asked = binding.spec.suspension
    if asked is None:
        return False
    some = asked.dispatching_on_clusters
    return bool(asked.dispatching) or (some is not None and cluster in some.cluster_names)


def marked(manifest: Raw, template: Raw, envelope: Meta) -> Raw:
    """The manifest with the marks by which the member's object is known to be ours."""
    labels: dict[str, str] = {**marks.labels_of(manifest), **envelope.labels, marks.MANAGED: "true"}
    annotations: dict[str, str] = {
        **marks.annotations_of(manifest),
        **envelope.annotations,
        marks.WORK_NAMESPACE: envelope.namespace,
        marks.WORK_NAME: envelope.name,
        marks.TEMPLATE_UID: template["metadata"].get("uid", ""),
    }
    if generation := template["metadata"].get("generation"):
        annotations[marks.TEMPLATE_GENERATION] = str(generation)
    annotations[marks.MANAGED_LABELS] = ",".join(sorted(labels))
    annotations[marks.MANAGED_ANNOTATIONS] = ",".join(sorted({*annotations, marks.MANAGED_ANNOTATIONS}))
    return marks.remarked(manifest, labels=labels, annotations=annotations)


def with_preserved_state(manifest: Raw, binding: Binding, cluster: str) -> Raw:
    """A stateful workload that moves alone takes along what its predecessor's status said."""
    tasks = binding.spec.graceful_eviction_tasks
    if len(binding.spec.clusters) != 1 or not tasks:
        return manifest
    last = tasks[-1]
    moved = last.purge_mode in ("Directly", "Immediately") and cluster not in last.clusters_before_failover
    if not moved or not last.preserved_label_state:
        return manifest
    return marks.remarked(manifest, labels=last.preserved_label_state, annotations={})


def overridden(
    manifest: Raw, binding: Binding, cluster: Cluster | None, view: View
) -> tuple[Raw, dict[str, str], list[Note]]:
    """The manifest after every override policy that means it, the annotations that list them, and what to tell."""
    applied: dict[str, str] = {}
    notes: list[Note] = []
    namespace = binding.spec.resource.namespace
    groups: list[tuple[str, list[Override]]] = [
        (marks.APPLIED_CLUSTER_OVERRIDES, list(view.all(ClusterOverridePolicy))),
        (marks.APPLIED_OVERRIDES, list(view.all(OverridePolicy, namespace)) if namespace else []),
    ]
    for annotation, policies in groups:
        listed = []
        for policy in matching(policies, manifest):
            rules = list(rules_for(policy, cluster))
            for overriders in rules:
                manifest = override(manifest, overriders)
                listed.append({"policyName": policy.name, "overriders": overriders})
            if rules:
                notes.append(told(binding, policy, cluster))
        if listed:
            applied[annotation] = orjson.dumps(listed).decode()
    return manifest, applied, notes


def matching(policies: list[Override], manifest: Raw) -> list[Override]:
    """The override policies that mean this object, the closest last because later ones win."""
    ranked = []
    for policy in policies:
        selectors = [msgspec.to_builtins(s) for s in policy.spec.resource_selectors]
        if closeness := policy_priority(selectors, manifest):
            ranked.append((closeness, policy.name, policy))
    return [policy for _, _, policy in sorted(ranked, key=lambda entry: entry[:2])]


def rules_for(policy: Override, cluster: Cluster | None) -> Iterator[Raw]:
    if policy.spec.override_rules:
        for rule in policy.spec.override_rules:
            if rule.target_cluster is None or (cluster is not None and belongs(rule.target_cluster)(cluster)):
                yield msgspec.to_builtins(rule.overriders)
    else:
        asked = policy.spec.target_cluster
        overriders: Raw = msgspec.to_builtins(policy.spec.overriders)
        if overriders and (asked is None or (cluster is not None and belongs(asked)(cluster))):
            yield overriders


def told(binding: Binding, policy: Override, cluster: Cluster | None) -> Note:
    name = f"{policy.namespace}/{policy.name}" if policy.namespace else policy.name
    where = cluster.name if cluster is not None else ""
    what = "override policy" if policy.namespace else "cluster override policy"
    text = f"Apply {what}({name}) for cluster({where}) succeed."
    return Note(marks.template_ref(binding), "ApplyOverridePolicySucceed", text, OVERRIDE_SOURCE)


def divided_completions(binding: Binding, template: Raw, targets: list[TargetCluster]) -> dict[str, int]:
    """A Job whose pods are divided has its completions divided alike."""
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
    weights = np.array([replicas[name] for name in names], dtype=np.int64)
    shares = apportion(int(completions), weights, leans_back=fnv1a(binding.spec.resource.uid) % 2 == 1)
    return dict(zip(names, shares.tolist(), strict=True))
