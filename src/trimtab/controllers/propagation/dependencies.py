"""Attaches bindings for the dependencies of a workload, so that they are propagated to the same clusters.

A binding with `propagateDeps` lists the objects its template needs. Each of them gets an attached binding, whose
`requiredBy` holds one snapshot per binding that needs it; the attached binding has Works in all of their clusters.
"""

from collections.abc import Iterable, Iterator

import msgspec
import orjson

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import (
    Binding,
    BindingSnapshot,
    BindingSpec,
    ResourceBinding,
    TargetCluster,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    Effect,
    Index,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.finalizers import with_finalizer, without_finalizers
from trimtab.controllers.propagation.template_references import controller_reference, object_reference
from trimtab.interpret.names import binding_name, binding_reference_key
from trimtab.interpret.operations import InterpreterError, Operation

SOURCE = "dependencies-distributor"
CONFLICT: Topic[Ref, str] = Topic("dependency conflict")
"""The last disagreement of the bindings that require an attached one; empty when they agree."""
REPORTED_DEPENDENCIES: Topic[Ref, tuple[int | str, ...]] = Topic("reported dependencies")


def depended_by_keys(binding: ResourceBinding) -> Iterable[str]:
    return [label for label in binding.metadata.labels if label.startswith(well_known.DEPENDED_BY)]


def dependency_keys(binding: ResourceBinding) -> Iterable[str]:
    recorded = binding.metadata.annotations.get(well_known.DEPENDENCIES)
    if recorded is None:
        return ()
    return [
        dependency_key(
            dependency["apiVersion"], dependency["kind"], dependency.get("namespace", ""), dependency.get("name")
        )
        for dependency in orjson.loads(recorded) or ()
    ]


def dependency_key(api_version: str, kind: str, namespace: str, name: str | None) -> str:
    """The index value of a dependency; without a name it stands for a dependency by label selector."""
    return f"{api_version} {kind} {namespace}/{name or ''}"


BINDINGS_BY_DEPENDENCY = Index("bindings that need an object", ResourceBinding, dependency_keys)
ATTACHED_BINDINGS = Index("bindings attached to another", ResourceBinding, depended_by_keys)


def affects_dependencies(old: Binding | None, new: Binding) -> bool:
    if not new.spec.propagate_deps and well_known.DEPENDENCIES_FINALIZER not in new.metadata.finalizers:
        return False  # it has no dependencies, and no attached bindings to release
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.holds != new.status.holds
    )


def bindings_requiring(old: ResourceBinding | None, new: ResourceBinding | None, view: View) -> Iterable[Key]:
    """An attached binding was created or deleted, lost its labels, or has a newer object: the bindings that need it."""
    required_by = [s for one in (old, new) if one is not None for s in one.spec.required_by]
    if not required_by or (old is not None and new is not None and dependency_state(old) == dependency_state(new)):
        return
    for snapshot in dict.fromkeys(required_by):
        binding = view.get(ResourceBinding, snapshot.namespace, snapshot.name)
        if binding is not None:
            yield key_of(binding)


def dependency_state(attached: ResourceBinding) -> tuple[Iterable[str], str]:
    return depended_by_keys(attached), attached.spec.resource.resource_version


@controller(
    ResourceBinding,
    writes=[
        f"metadata.finalizers[{well_known.DEPENDENCIES_FINALIZER}]",
        f"metadata.annotations[{well_known.DEPENDENCIES}]",
        "ResourceBinding",
    ],
    predicate=affects_dependencies,
    triggers=[Trigger(ResourceBinding, bindings_requiring)],
    resumes=True,
)
def dependencies(binding: ResourceBinding, view: View) -> Iterator[Effect]:
    attached = list(view.by_index(ATTACHED_BINDINGS, depended_by_label(binding)))
    if not binding.spec.propagate_deps or binding.metadata.deletion_timestamp is not None:
        for other in attached:
            yield detach(other, binding)
        yield from remove_finalizer(binding)
        return
    if not binding.spec.clusters and well_known.DEPENDENCIES_FINALIZER not in binding.metadata.finalizers:
        return  # the workload has no clusters yet
    interpreter = view.interpreter
    ref = well_known.template_ref(binding)
    template = view.raw(ref)
    if template is None or not interpreter.interprets((ref.api_version, ref.kind), Operation.DEPENDENCY):
        return
    try:
        needed = interpreter.dependencies(template)
    except InterpreterError as fault:
        yield RecordEvent(ref, "GetDependenciesFailed", str(fault), SOURCE, "Warning")
        yield RequeueAfter(30)
        return
    yield from attach_dependencies(binding, needed, attached, view)


def update_attached_binding(template: Raw, view: View) -> Iterator[Effect]:
    """Update the attached binding of an object that was created or changed and that other bindings need."""
    ref = well_known.ref_of_raw(template)
    before = seen = view.get(ResourceBinding, ref.namespace, binding_name(ref.kind, ref.name))
    for name in (ref.name, None):
        for binding in view.by_index(
            BINDINGS_BY_DEPENDENCY, dependency_key(ref.api_version, ref.kind, ref.namespace, name)
        ):
            if (
                binding.spec.propagate_deps
                and binding.metadata.deletion_timestamp is None
                and is_dependency_of(template, binding)
            ):
                seen = attached_binding(binding, template, seen, view)
    if seen is not None and seen != before:
        yield seen
        yield from conflict_events(seen, view, is_written=True)


def is_dependency_of(template: Raw, binding: ResourceBinding) -> bool:
    recorded = orjson.loads(binding.metadata.annotations.get(well_known.DEPENDENCIES, "null")) or ()
    ref = well_known.ref_of_raw(template)
    return any(
        (entry["apiVersion"], entry["kind"], entry.get("namespace", "")) == (ref.api_version, ref.kind, ref.namespace)
        and (entry["name"] == ref.name if entry.get("name") else matches_selector(entry, template))
        for entry in recorded
    )


def matches_selector(dependency: Raw, template: Raw) -> bool:
    selector = msgspec.convert(dependency.get("labelSelector") or {}, LabelSelector, strict=False)
    return selector.matches(well_known.labels_of(template))


def depended_by_label(binding: Binding) -> str:
    return well_known.DEPENDED_BY + binding_reference_key(binding.namespace, binding.name)


def remove_finalizer(binding: ResourceBinding) -> Iterator[Effect]:
    after = without_finalizers(binding, well_known.DEPENDENCIES_FINALIZER)
    if after is not binding:
        yield after


def attach_dependencies(
    binding: ResourceBinding, needed: list[Raw], attached: list[ResourceBinding], view: View
) -> Iterator[Effect]:
    """Create or update the attached bindings of all needed objects, and detach those no longer needed."""
    ref = well_known.template_ref(binding)
    recorded = orjson.dumps(needed or None).decode()
    annotations = binding.metadata.annotations | {well_known.DEPENDENCIES: recorded}
    annotated = with_finalizer(
        binding.but(metadata=binding.metadata.but(annotations=annotations)), well_known.DEPENDENCIES_FINALIZER
    )
    changed = annotated != binding
    if changed:
        yield annotated
    templates = [raw for dependency in needed for raw in objects_of(dependency, view)]
    names = {binding_name(raw["kind"], raw["metadata"]["name"]) for raw in templates}
    for other in attached:
        if other.name not in names:
            changed = True
            yield detach(other, binding)
    versions: list[str] = []
    conflicts: list[Effect] = []
    for raw in templates:
        seen = view.get(ResourceBinding, binding.namespace, binding_name(raw["kind"], raw["metadata"]["name"]))
        wanted = attached_binding(binding, raw, seen, view)
        versions.append(wanted.spec.resource.resource_version)
        if wanted != seen:
            changed = True
            yield wanted
        conflicts += conflict_events(wanted, view, is_written=wanted != seen)
    yield from conflicts  # after the bindings, so that new ones are written together
    key, cause = well_known.ref_of(binding), (binding.metadata.generation, *versions)
    if changed or view.recall(REPORTED_DEPENDENCIES, key) != cause:
        listed = f"[{' '.join(map(format_dependency, needed))}]"
        yield RecordEvent(
            ref, "GetDependenciesSucceed", f"Get dependencies({listed}) succeed.", SOURCE, routine=not changed
        )
        text = "Sync schedule results to dependencies succeed."
        yield RecordEvent(key, "SyncScheduleResultToDependenciesSucceed", text, SOURCE, routine=not changed)
        yield RememberInProcess(REPORTED_DEPENDENCIES, key, cause)


def format_dependency(dependency: Raw) -> str:
    """One dependency as upstream's events print it."""
    selector = "nil" if dependency.get("labelSelector") is None else orjson.dumps(dependency["labelSelector"]).decode()
    return (
        f"{{APIVersion:{dependency['apiVersion']} Kind:{dependency['kind']} "
        f"Namespace:{dependency.get('namespace', '')} Name:{dependency.get('name', '')} LabelSelector:{selector}}}"
    )


def objects_of(dependency: Raw, view: View) -> list[Raw]:
    """The existing objects that a dependency refers to: one by name, or all that its selector matches."""
    api_version, kind, namespace = dependency["apiVersion"], dependency["kind"], dependency.get("namespace", "")
    if name := dependency.get("name"):
        raw = view.raw(Ref(api_version, kind, namespace, name))
        return [raw] if raw is not None else []
    return [raw for raw in view.raws(api_version, kind, namespace) if matches_selector(dependency, raw)]


def snapshot_of(binding: ResourceBinding, view: View) -> BindingSnapshot:
    """The clusters of the workload, with those it is being evicted from: its dependencies must not be removed first."""
    clusters = {target.name: target for target in binding.spec.clusters}
    if not view.profile.dependencies_removed_last:
        return BindingSnapshot(namespace=binding.namespace, name=binding.name, clusters=tuple(clusters.values()))
    for task in binding.spec.graceful_eviction_tasks:
        if task.purge_mode not in well_known.IMMEDIATE_PURGE_MODES:
            clusters.setdefault(task.from_cluster, TargetCluster(name=task.from_cluster, replicas=task.replicas or 0))
    for hold in binding.status.holds:
        clusters.setdefault(hold.cluster, TargetCluster(name=hold.cluster, replicas=hold.replicas))
    return BindingSnapshot(namespace=binding.namespace, name=binding.name, clusters=tuple(clusters.values()))


def attached_binding(binding: ResourceBinding, raw: Raw, seen: ResourceBinding | None, view: View) -> ResourceBinding:
    """The attached binding of a dependency, with this binding among those that require it."""
    ref = well_known.ref_of_raw(raw)
    if seen is None:
        seen = ResourceBinding(
            metadata=Meta(
                name=binding_name(ref.kind, ref.name),
                namespace=binding.namespace,
                labels={well_known.RB_ID: well_known.permanent_id(ref.uid, ref.kind, ref.name)},
                finalizers=(well_known.BINDING_FINALIZER,),
                owner_references=(controller_reference(ref),),
            )
        )
    own = snapshot_of(binding, view)
    required = [own if is_snapshot_of(snapshot, binding) else snapshot for snapshot in seen.spec.required_by]
    if own not in required:
        required.append(own)
    spec = seen.spec.but(required_by=tuple(required), resource=object_reference(raw))
    if spec.placement is None:
        spec = spec.but(**combined_rules(requiring_bindings(spec.required_by, view)))
    labels = seen.metadata.labels | {depended_by_label(binding): well_known.binding_id(binding)}
    return seen.but(metadata=seen.metadata.but(labels=labels), spec=spec)


def is_snapshot_of(snapshot: BindingSnapshot, binding: Binding) -> bool:
    return (snapshot.namespace, snapshot.name) == (binding.namespace, binding.name)


def requiring_bindings(required: Iterable[BindingSnapshot], view: View) -> list[ResourceBinding]:
    """The bindings that require this attached binding."""
    found = (view.get(ResourceBinding, snapshot.namespace, snapshot.name) for snapshot in required)
    return [binding for binding in found if binding is not None]


def combined_rules(requiring: list[ResourceBinding]) -> dict[str, object]:
    """A binding without its own policy overwrites, and preserves on deletion, if any binding that requires it does."""
    overwrite = any(binding.spec.conflict_resolution == "Overwrite" for binding in requiring)
    preserve = any(binding.spec.preserve_resources_on_deletion for binding in requiring)
    return {"conflict_resolution": "Overwrite" if overwrite else "Abort", "preserve_resources_on_deletion": preserve}


def conflict_events(attached: ResourceBinding, view: View, *, is_written: bool) -> Iterator[Effect]:
    """An event when the bindings that require this one disagree on conflict resolution or deletion.

    It is recorded when the attached binding is written, and when the disagreement itself changes.
    """
    requiring = requiring_bindings(attached.spec.required_by, view) if attached.spec.placement is None else []
    resolutions = {binding.spec.conflict_resolution == "Overwrite" for binding in requiring}
    deletions = {bool(binding.spec.preserve_resources_on_deletion) for binding in requiring}
    reasons = [
        *(["ConflictResolution conflicted (Overwrite vs Abort)"] if len(resolutions) > 1 else []),
        *(["PreserveResourcesOnDeletion conflicted (true vs false)"] if len(deletions) > 1 else []),
    ]
    text = f"Dependency policy conflict detected: {'; '.join(reasons)}." if reasons else ""
    known = view.recall(CONFLICT, well_known.ref_of(attached))
    if known != text:
        yield RememberInProcess(CONFLICT, well_known.ref_of(attached), text)
    if text and (is_written or known not in (None, text)):
        yield RecordEvent(well_known.ref_of(attached), "DependencyPolicyConflict", text, SOURCE, "Warning")


def detach(other: ResourceBinding, binding: ResourceBinding) -> ResourceBinding:
    """The attached binding without this binding's requirement; without any, its spec is empty and it gets no Works."""
    required = tuple(snapshot for snapshot in other.spec.required_by if not is_snapshot_of(snapshot, binding))
    spec = other.spec.but(required_by=required)
    if not required and spec.placement is None:
        spec = BindingSpec(resource=spec.resource)
    labels = {k: v for k, v in other.metadata.labels.items() if k != depended_by_label(binding)}
    return other.but(metadata=other.metadata.but(labels=labels), spec=spec)
