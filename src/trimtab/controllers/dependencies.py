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
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Index, Note, Ref, Remember, View, Wake, Wish, controller
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.names import binding_name, binding_reference_key
from trimtab.interpret.operations import Operation, Uninterpretable

SOURCE = "dependencies-distributor"


def depended_by_keys(binding: ResourceBinding) -> Iterable[str]:
    return [label for label in binding.metadata.labels if label.startswith(marks.DEPENDED_BY)]


def needed_keys(binding: ResourceBinding) -> Iterable[str]:
    recorded = orjson.loads(binding.metadata.annotations.get(marks.DEPENDENCIES, "null")) or ()
    return [
        need_key(want["apiVersion"], want["kind"], want.get("namespace", ""), want.get("name")) for want in recorded
    ]


def need_key(api_version: str, kind: str, namespace: str, name: str | None) -> str:
    """Without a name: any object of the kind, by its labels."""
    return f"{api_version} {kind} {namespace}/{name or ''}"


NEEDS = Index("bindings that need an object", ResourceBinding, needed_keys)
ATTACHED_TO = Index("bindings attached to another", ResourceBinding, depended_by_keys)


def concerns_dependencies(old: Binding | None, new: Binding) -> bool:
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.holds != new.status.holds
    )


def referrers_of_detached(old: ResourceBinding | None, new: ResourceBinding | None, view: View) -> Iterable[Key]:
    """An attached binding went or lost its marks: those who need it look again."""
    if old is None or (new is not None and depended_by_keys(old) == depended_by_keys(new)):
        return
    for snapshot in old.spec.required_by:
        binding = view.get(ResourceBinding, snapshot.namespace, snapshot.name)
        if binding is not None:
            yield key_of(binding)


@controller(
    ResourceBinding,
    writes=["metadata.finalizers", "metadata.annotations", "ResourceBinding"],
    changed=concerns_dependencies,
    wakes=[Wake(ResourceBinding, referrers_of_detached)],
)
def dependencies(binding: ResourceBinding, view: View) -> Iterator[Wish]:
    attached = list(view.having(ATTACHED_TO, depended_by(binding)))
    if not binding.spec.propagate_deps or binding.metadata.deletion_timestamp is not None:
        for other in attached:
            yield detached(other, binding)
        yield from forgotten(binding)
        return
    interpreter: Interpreter = view.part("interpreter")
    ref = marks.template_ref(binding)
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
    ref = marks.ref_of_raw(template)
    before = seen = view.get(ResourceBinding, ref.namespace, binding_name(ref.kind, ref.name))
    for name in (ref.name, None):
        for binding in view.having(NEEDS, need_key(ref.api_version, ref.kind, ref.namespace, name)):
            if (
                binding.spec.propagate_deps
                and binding.metadata.deletion_timestamp is None
                and is_needed(template, binding)
            ):
                seen = attached_to(binding, template, seen)
    if seen is not None and seen != before:
        yield seen


def is_needed(template: Raw, binding: ResourceBinding) -> bool:
    recorded = orjson.loads(binding.metadata.annotations.get(marks.DEPENDENCIES, "null")) or ()
    ref = marks.ref_of_raw(template)
    return any(
        (want["apiVersion"], want["kind"], want.get("namespace", "")) == (ref.api_version, ref.kind, ref.namespace)
        and (want["name"] == ref.name if want.get("name") else chosen_by(want, template))
        for want in recorded
    )


def chosen_by(want: Raw, template: Raw) -> bool:
    selector = msgspec.convert(want.get("labelSelector") or {}, LabelSelector, strict=False)
    return selector.matches(marks.labels_of(template))


def depended_by(binding: Binding) -> str:
    return marks.DEPENDED_BY + binding_reference_key(binding.namespace, binding.name)


def forgotten(binding: ResourceBinding) -> Iterator[Wish]:
    finalizers = tuple(f for f in binding.metadata.finalizers if f != marks.DEPENDENCIES_FINALIZER)
    if finalizers != binding.metadata.finalizers:
        yield binding.but(metadata=binding.metadata.but(finalizers=finalizers))


def attach(binding: ResourceBinding, needed: list[Raw], attached: list[ResourceBinding], view: View) -> Iterator[Wish]:
    """Every object needed gets a binding that follows this one; those no longer needed are let go."""
    ref = marks.template_ref(binding)
    recorded = orjson.dumps(needed or None).decode()
    introduced = binding.but(
        metadata=binding.metadata.but(
            finalizers=tuple(dict.fromkeys((*binding.metadata.finalizers, marks.DEPENDENCIES_FINALIZER))),
            annotations=binding.metadata.annotations | {marks.DEPENDENCIES: recorded},
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
    for raw in templates:
        seen = view.get(ResourceBinding, binding.namespace, binding_name(raw["kind"], raw["metadata"]["name"]))
        wanted = attached_to(binding, raw, seen)
        if wanted != seen:
            changed = True
            yield wanted
            yield from conflict_note(wanted)
    key, generation = marks.ref_of(binding), binding.metadata.generation
    if changed or view.recall("dependencies told", key) != generation:
        listed = f"[{' '.join(map(told_as, needed))}]"
        yield Note(ref, "GetDependenciesSucceed", f"Get dependencies({listed}) succeed.", SOURCE, routine=not changed)
        said = "Sync schedule results to dependencies succeed."
        yield Note(key, "SyncScheduleResultToDependenciesSucceed", said, SOURCE, routine=not changed)
        yield Remember("dependencies told", key, generation)


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


def snapshot_of(binding: ResourceBinding) -> BindingSnapshot:
    """Where the workload is, and where it still runs while it leaves: its dependencies must not go first."""
    clusters = {target.name: target for target in binding.spec.clusters}
    for task in binding.spec.graceful_eviction_tasks:
        if task.purge_mode not in marks.DIRECTLY:
            clusters.setdefault(task.from_cluster, TargetCluster(name=task.from_cluster, replicas=task.replicas or 0))
    for hold in binding.status.holds:
        clusters.setdefault(hold.cluster, TargetCluster(name=hold.cluster, replicas=hold.replicas))
    return BindingSnapshot(namespace=binding.namespace, name=binding.name, clusters=tuple(clusters.values()))


def attached_to(binding: ResourceBinding, raw: Raw, seen: ResourceBinding | None) -> ResourceBinding:
    ref = marks.ref_of_raw(raw)
    if seen is None:
        seen = ResourceBinding(
            metadata=Meta(
                name=binding_name(ref.kind, ref.name),
                namespace=binding.namespace,
                labels={marks.RB_ID: marks.permanent_id(ref.uid, ref.kind, ref.name)},
                finalizers=(marks.BINDING_FINALIZER,),
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
    others = [s for s in seen.spec.required_by if (s.namespace, s.name) != (binding.namespace, binding.name)]
    required = tuple(sorted((*others, snapshot_of(binding)), key=lambda s: (s.namespace, s.name)))
    spec = seen.spec.but(required_by=required, resource=resource_of(seen.spec.resource, raw))
    if spec.placement is None:
        spec = spec.but(**strategy(binding, seen, others))
    labels = seen.metadata.labels | {depended_by(binding): marks.binding_id(binding)}
    return seen.but(metadata=seen.metadata.but(labels=labels), spec=spec)


def resource_of(before: ObjectReference, raw: Raw) -> ObjectReference:
    """The dependency as it is now; its version moves with its content so that Works follow."""
    ref = marks.ref_of_raw(raw)
    return ObjectReference(
        api_version=ref.api_version,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        uid=ref.uid,
        resource_version=raw["metadata"].get("resourceVersion", ""),
    )


def strategy(binding: ResourceBinding, seen: ResourceBinding, others: list[BindingSnapshot]) -> dict[str, object]:
    """A binding with no policy of its own takes the boldest conflict rule and the most careful deletion rule."""
    bold = binding.spec.conflict_resolution == "Overwrite" or (
        bool(others) and seen.spec.conflict_resolution == "Overwrite"
    )
    keep = bool(binding.spec.preserve_resources_on_deletion) or (
        bool(others) and bool(seen.spec.preserve_resources_on_deletion)
    )
    return {"conflict_resolution": "Overwrite" if bold else "Abort", "preserve_resources_on_deletion": keep}


def conflict_note(attached: ResourceBinding) -> Iterator[Note]:
    if len(attached.spec.required_by) > 1 and attached.spec.placement is not None:
        text = "The object is placed by its own policy and required elsewhere; both apply."
        yield Note(marks.ref_of(attached), "DependencyPolicyConflict", text, SOURCE, "Warning")


def detached(other: ResourceBinding, binding: ResourceBinding) -> ResourceBinding:
    """The attached binding, no longer needed by this one; with nobody left it asks for nothing."""
    required = tuple(s for s in other.spec.required_by if (s.namespace, s.name) != (binding.namespace, binding.name))
    spec = other.spec.but(required_by=required)
    if not required and spec.placement is None:
        spec = BindingSpec(resource=spec.resource)
    labels = {k: v for k, v in other.metadata.labels.items() if k != depended_by(binding)}
    return other.but(metadata=other.metadata.but(labels=labels), spec=spec)
