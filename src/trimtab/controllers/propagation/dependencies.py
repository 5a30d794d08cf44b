"""A binding that takes its dependencies along -> bindings of the objects it needs, placed where it is placed."""

from collections.abc import Iterable, Iterator

import msgspec
import orjson

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import (
    Binding,
    BindingSnapshot,
    BindingSpec,
    ObjectReference,
    ResourceBinding,
    TargetCluster,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Meta, OwnerReference, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Index, Note, Ref, Remember, View, Wake, Wish, controller
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.names import binding_name, binding_reference_key
from trimtab.interpret.operations import Operation, Uninterpretable

SOURCE = "dependencies-distributor"


def depended_by_keys(binding: ResourceBinding) -> Iterable[str]:
    return [label for label in binding.metadata.labels if label.startswith(well_known.DEPENDED_BY)]


def needed_keys(binding: ResourceBinding) -> Iterable[str]:
    recorded = binding.metadata.annotations.get(well_known.DEPENDENCIES)
    if recorded is None:
        return ()
    return [
        need_key(want["apiVersion"], want["kind"], want.get("namespace", ""), want.get("name"))
        for want in orjson.loads(recorded) or ()
    ]


def need_key(api_version: str, kind: str, namespace: str, name: str | None) -> str:
    """Without a name: any object of the kind, by its labels."""
    return f"{api_version} {kind} {namespace}/{name or ''}"


NEEDS = Index("bindings that need an object", ResourceBinding, needed_keys)
ATTACHED_TO = Index("bindings attached to another", ResourceBinding, depended_by_keys)


def concerns_dependencies(old: Binding | None, new: Binding) -> bool:
    if not new.spec.propagate_deps and well_known.DEPENDENCIES_FINALIZER not in new.metadata.finalizers:
        return False  # it takes nothing along, and nothing that it ever took along is left
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.holds != new.status.holds
    )


def referrers(old: ResourceBinding | None, new: ResourceBinding | None, view: View) -> Iterable[Key]:
    """An attached binding came or went, lost its marks, or speaks of a newer object: those who need it look again."""
    if old is not None and new is not None and traits(old) == traits(new):
        return
    for snapshot in dict.fromkeys(s for one in (old, new) if one is not None for s in one.spec.required_by):
        binding = view.get(ResourceBinding, snapshot.namespace, snapshot.name)
        if binding is not None:
            yield key_of(binding)


def traits(attached: ResourceBinding) -> tuple[Iterable[str], str]:
    return depended_by_keys(attached), attached.spec.resource.resource_version


@controller(
    ResourceBinding,
    writes=["metadata.finalizers", "metadata.annotations", "ResourceBinding"],
    changed=concerns_dependencies,
    wakes=[Wake(ResourceBinding, referrers)],
)
def dependencies(binding: ResourceBinding, view: View) -> Iterator[Wish]:
    attached = list(view.having(ATTACHED_TO, depended_by(binding)))
    if not binding.spec.propagate_deps or binding.metadata.deletion_timestamp is not None:
        for other in attached:
            yield detached(other, binding)
        yield from forgotten(binding)
        return
    if not binding.spec.clusters and well_known.DEPENDENCIES_FINALIZER not in binding.metadata.finalizers:
        return  # nobody follows a workload that has not been placed yet
    interpreter: Interpreter = view.part("interpreter")
    ref = well_known.template_ref(binding)
    template = view.raw(ref)
    if template is None or not interpreter.interprets((ref.api_version, ref.kind), Operation.DEPENDENCY):
        return
    try:
        needed = interpreter.dependencies(template)
    except Uninterpretable as fault:
        yield Note(ref, "GetDependenciesFailed", str(fault), SOURCE, "Warning")
        yield Again(30)
        return
    yield from attach(binding, needed, attached, view)


def brought_along(template: Raw, view: View) -> Iterator[Wish]:
    """An object that came or changed, and that other bindings need: their copy of it follows."""
    ref = well_known.ref_of_raw(template)
    before = seen = view.get(ResourceBinding, ref.namespace, binding_name(ref.kind, ref.name))
    for name in (ref.name, None):
        for binding in view.having(NEEDS, need_key(ref.api_version, ref.kind, ref.namespace, name)):
            if (
                binding.spec.propagate_deps
                and binding.metadata.deletion_timestamp is None
                and is_needed(template, binding)
            ):
                seen = attached_to(binding, template, seen, view)
    if seen is not None and seen != before:
        yield seen


def is_needed(template: Raw, binding: ResourceBinding) -> bool:
    recorded = orjson.loads(binding.metadata.annotations.get(well_known.DEPENDENCIES, "null")) or ()
    ref = well_known.ref_of_raw(template)
    return any(
        (want["apiVersion"], want["kind"], want.get("namespace", "")) == (ref.api_version, ref.kind, ref.namespace)
        and (want["name"] == ref.name if want.get("name") else chosen_by(want, template))
        for want in recorded
    )


def chosen_by(want: Raw, template: Raw) -> bool:
    selector = msgspec.convert(want.get("labelSelector") or {}, LabelSelector, strict=False)
    return selector.matches(well_known.labels_of(template))


def depended_by(binding: Binding) -> str:
    return well_known.DEPENDED_BY + binding_reference_key(binding.namespace, binding.name)


def forgotten(binding: ResourceBinding) -> Iterator[Wish]:
    finalizers = tuple(f for f in binding.metadata.finalizers if f != well_known.DEPENDENCIES_FINALIZER)
    if finalizers != binding.metadata.finalizers:
        yield binding.but(metadata=binding.metadata.but(finalizers=finalizers))


def attach(binding: ResourceBinding, needed: list[Raw], attached: list[ResourceBinding], view: View) -> Iterator[Wish]:
    """Every object needed gets a binding that follows this one; those no longer needed are let go."""
    ref = well_known.template_ref(binding)
    recorded = orjson.dumps(needed or None).decode()
    introduced = binding.but(
        metadata=binding.metadata.but(
            finalizers=tuple(dict.fromkeys((*binding.metadata.finalizers, well_known.DEPENDENCIES_FINALIZER))),
            annotations=binding.metadata.annotations | {well_known.DEPENDENCIES: recorded},
        )
    )
    changed = introduced != binding
    if changed:
        yield introduced
    templates = [raw for want in needed for raw in found(want, view)]
    names = {binding_name(raw["kind"], raw["metadata"]["name"]) for raw in templates}
    for other in attached:
        if other.name not in names:
            changed = True
            yield detached(other, binding)
    versions: list[str] = []
    for raw in templates:
        seen = view.get(ResourceBinding, binding.namespace, binding_name(raw["kind"], raw["metadata"]["name"]))
        wanted = attached_to(binding, raw, seen, view)
        versions.append(wanted.spec.resource.resource_version)
        if wanted != seen:
            changed = True
            yield wanted
            yield from conflict_note(wanted, view)
    key, cause = well_known.ref_of(binding), (binding.metadata.generation, *versions)
    if changed or view.recall("dependencies told", key) != cause:
        listed = f"[{' '.join(map(told_as, needed))}]"
        yield Note(ref, "GetDependenciesSucceed", f"Get dependencies({listed}) succeed.", SOURCE, routine=not changed)
        said = "Sync schedule results to dependencies succeed."
        yield Note(key, "SyncScheduleResultToDependenciesSucceed", said, SOURCE, routine=not changed)
        yield Remember("dependencies told", key, cause)


def told_as(want: Raw) -> str:
    """One dependency as upstream's events print it."""
    selector = "nil" if want.get("labelSelector") is None else orjson.dumps(want["labelSelector"]).decode()
    return (
        f"{{APIVersion:{want['apiVersion']} Kind:{want['kind']} Namespace:{want.get('namespace', '')} "
        f"Name:{want.get('name', '')} LabelSelector:{selector}}}"
    )


def found(want: Raw, view: View) -> list[Raw]:
    """The live objects that a dependency means: one by name, or all that a selector matches."""
    namespace = want.get("namespace", "")
    if name := want.get("name"):
        raw = view.raw(Ref(want["apiVersion"], want["kind"], namespace, name))
        return [raw] if raw is not None else []
    return [raw for raw in view.raws(want["apiVersion"], want["kind"], namespace) if chosen_by(want, raw)]


def snapshot_of(binding: ResourceBinding, view: View) -> BindingSnapshot:
    """Where the workload is, and where it still runs while it leaves: its dependencies must not go first."""
    clusters = {target.name: target for target in binding.spec.clusters}
    if not view.profile.dependencies_leave_last:
        return BindingSnapshot(namespace=binding.namespace, name=binding.name, clusters=tuple(clusters.values()))
    for task in binding.spec.graceful_eviction_tasks:
        if task.purge_mode not in well_known.DIRECTLY:
            clusters.setdefault(task.from_cluster, TargetCluster(name=task.from_cluster, replicas=task.replicas or 0))
    for hold in binding.status.holds:
        clusters.setdefault(hold.cluster, TargetCluster(name=hold.cluster, replicas=hold.replicas))
    return BindingSnapshot(namespace=binding.namespace, name=binding.name, clusters=tuple(clusters.values()))


def attached_to(binding: ResourceBinding, raw: Raw, seen: ResourceBinding | None, view: View) -> ResourceBinding:
    ref = well_known.ref_of_raw(raw)
    if seen is None:
        seen = ResourceBinding(
            metadata=Meta(
                name=binding_name(ref.kind, ref.name),
                namespace=binding.namespace,
                labels={well_known.RB_ID: well_known.permanent_id(ref.uid, ref.kind, ref.name)},
                finalizers=(well_known.BINDING_FINALIZER,),
                owner_references=(
                    OwnerReference(
                        api_version=ref.api_version,
                        kind=ref.kind,
                        name=ref.name,
                        uid=ref.uid,
                        controller=True,
                        block_owner_deletion=True,
                    ),
                ),
            )
        )
    mine = snapshot_of(binding, view)
    required = [mine if is_of(snapshot, binding) else snapshot for snapshot in seen.spec.required_by]
    if mine not in required:
        required.append(mine)
    spec = seen.spec.but(required_by=tuple(required), resource=resource_of(seen.spec.resource, raw))
    if spec.placement is None:
        spec = spec.but(**strategy(asking(spec.required_by, view)))
    labels = seen.metadata.labels | {depended_by(binding): well_known.binding_id(binding)}
    return seen.but(metadata=seen.metadata.but(labels=labels), spec=spec)


def resource_of(before: ObjectReference, raw: Raw) -> ObjectReference:
    """The dependency as it is now; its version moves with its content so that Works follow."""
    ref = well_known.ref_of_raw(raw)
    return ObjectReference(
        api_version=ref.api_version,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        uid=ref.uid,
        resource_version=raw["metadata"].get("resourceVersion", ""),
    )


def is_of(snapshot: BindingSnapshot, binding: Binding) -> bool:
    return (snapshot.namespace, snapshot.name) == (binding.namespace, binding.name)


def asking(required: Iterable[BindingSnapshot], view: View) -> list[ResourceBinding]:
    """The bindings that need this one."""
    asked = (view.get(ResourceBinding, snapshot.namespace, snapshot.name) for snapshot in required)
    return [binding for binding in asked if binding is not None]


def strategy(asked: list[ResourceBinding]) -> dict[str, object]:
    """A binding with no policy of its own takes the boldest conflict rule and the most careful deletion rule."""
    bold = any(binding.spec.conflict_resolution == "Overwrite" for binding in asked)
    keep = any(binding.spec.preserve_resources_on_deletion for binding in asked)
    return {"conflict_resolution": "Overwrite" if bold else "Abort", "preserve_resources_on_deletion": keep}


def conflict_note(attached: ResourceBinding, view: View) -> Iterator[Note]:
    """Those who need this object do not agree on how it is to be treated."""
    asked = asking(attached.spec.required_by, view) if attached.spec.placement is None else []
    resolutions = {binding.spec.conflict_resolution == "Overwrite" for binding in asked}
    deletions = {bool(binding.spec.preserve_resources_on_deletion) for binding in asked}
    reasons = [
        *(["ConflictResolution conflicted (Overwrite vs Abort)"] if len(resolutions) > 1 else []),
        *(["PreserveResourcesOnDeletion conflicted (true vs false)"] if len(deletions) > 1 else []),
    ]
    if reasons:
        text = f"Dependency policy conflict detected: {'; '.join(reasons)}."
        yield Note(well_known.ref_of(attached), "DependencyPolicyConflict", text, SOURCE, "Warning")


def detached(other: ResourceBinding, binding: ResourceBinding) -> ResourceBinding:
    """The attached binding, no longer needed by this one; with nobody left it asks for nothing."""
    required = tuple(s for s in other.spec.required_by if (s.namespace, s.name) != (binding.namespace, binding.name))
    spec = other.spec.but(required_by=required)
    if not required and spec.placement is None:
        spec = BindingSpec(resource=spec.resource)
    labels = {k: v for k, v in other.metadata.labels.items() if k != depended_by(binding)}
    return other.but(metadata=other.metadata.but(labels=labels), spec=spec)
