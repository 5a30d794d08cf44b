"""Dependencies of a workload are propagated to its clusters."""

from typing import Any

from builders import binding, configmap, deployment
from views import FakeView

from trimtab.api.kinds.work import GracefulEvictionTask, ResourceBinding
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import RecordEvent, RememberInProcess
from trimtab.controllers.propagation.dependencies import (
    CONFLICT,
    affects_dependencies,
    dependencies,
    update_attached_binding,
)
from trimtab.interpret.interpreter import Interpreter


def binding_with_dependency(name: str, cluster: str, **fields: Any) -> tuple[ResourceBinding, Raw]:
    """A binding with a ConfigMap as dependency, and its template."""
    template = deployment(name)
    volume = {"name": "conf", "configMap": {"name": "conf"}}
    template["spec"]["template"]["spec"]["volumes"] = [volume]
    placed = binding(name, clusters={cluster: 1}, **fields)
    assert isinstance(placed, ResourceBinding)
    placed = placed.but(
        spec=placed.spec.but(propagate_deps=True),
        metadata=placed.metadata.but(labels=placed.metadata.labels | {well_known.RB_ID: f"id-{name}"}),
    )
    return placed, template


def view(*bindings: ResourceBinding, raws: list[Raw], **more: Any) -> FakeView:
    return FakeView(bindings, raws=raws, interpreter=Interpreter.of(), **more)


def attached_binding_in(effects: list[Any]) -> ResourceBinding:
    (made,) = [effect for effect in effects if isinstance(effect, ResourceBinding) and effect.name == "conf-configmap"]
    return made


def test_required_by_keeps_the_order_in_which_bindings_were_attached() -> None:
    second, other = binding_with_dependency("b", "m2")
    first, template = binding_with_dependency("a", "m1")
    raws = [template, other, configmap()]
    after_b = attached_binding_in(list(dependencies(second, view(second, first, raws=raws))))
    after_a = attached_binding_in(list(dependencies(first, view(second, first, after_b, raws=raws))))
    assert [(s.name, [c.name for c in s.clusters]) for s in after_a.spec.required_by] == [
        ("b-deployment", ["m2"]),
        ("a-deployment", ["m1"]),
    ]


def test_unscheduled_workload_attaches_nothing() -> None:
    placed, template = binding_with_dependency("a", "m1")
    waiting = placed.but(spec=placed.spec.but(clusters=()))
    assert list(dependencies(waiting, view(waiting, raws=[template, configmap()]))) == []


def test_change_matters_only_with_dependencies_or_their_finalizer() -> None:
    plain = binding("a", clusters={"m1": 1})
    needing, _ = binding_with_dependency("a", "m1")
    finalizers = (*plain.metadata.finalizers, well_known.DEPENDENCIES_FINALIZER)
    once = plain.but(metadata=plain.metadata.but(finalizers=finalizers))
    assert not affects_dependencies(None, plain)
    assert affects_dependencies(None, needing)
    assert affects_dependencies(None, once)
    assert not affects_dependencies(needing, needing)


def test_attached_binding_combines_rules_of_requiring_bindings_and_reports_conflicts() -> None:
    overwriting, template = binding_with_dependency("a", "m1", conflict_resolution="Overwrite")
    preserving, other = binding_with_dependency("b", "m2", preserve_resources_on_deletion=True)
    raws = [template, other, configmap()]
    alone = attached_binding_in(list(dependencies(overwriting, view(overwriting, preserving, raws=raws))))
    assert (alone.spec.conflict_resolution, alone.spec.preserve_resources_on_deletion) == ("Overwrite", False)
    effects = list(dependencies(preserving, view(overwriting, preserving, alone, raws=raws)))
    both = attached_binding_in(effects)
    assert (both.spec.conflict_resolution, both.spec.preserve_resources_on_deletion) == ("Overwrite", True)
    (event,) = [effect for effect in effects if isinstance(effect, RecordEvent) and effect.type == "Warning"]
    assert (event.reason, event.message) == (
        "DependencyPolicyConflict",
        (
            "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); "
            "PreserveResourcesOnDeletion conflicted (true vs false)."
        ),
    )
    changed = overwriting.but(spec=overwriting.spec.but(conflict_resolution="Abort"))
    after = attached_binding_in(list(dependencies(changed, view(changed, preserving, both, raws=raws))))
    assert after.spec.conflict_resolution == "Abort"


def test_conflict_is_reported_when_the_dependency_is_created_after_the_workloads() -> None:
    annotation = '[{"apiVersion":"v1","kind":"ConfigMap","namespace":"demo","name":"conf"}]'
    requiring = []
    for name, resolution in (("a", "Overwrite"), ("b", "Abort")):
        placed, _ = binding_with_dependency(name, "m1", conflict_resolution=resolution)
        annotations = {well_known.DEPENDENCIES: annotation}
        requiring.append(placed.but(metadata=placed.metadata.but(annotations=annotations)))
    effects = list(update_attached_binding(configmap(), view(*requiring, raws=[configmap()])))
    assert attached_binding_in(effects).spec.conflict_resolution == "Overwrite"
    assert [one.reason for one in effects if isinstance(one, RecordEvent)] == ["DependencyPolicyConflict"]


def test_conflict_is_reported_again_when_it_changes_without_a_write() -> None:
    first, template = binding_with_dependency(
        "a", "m1", conflict_resolution="Overwrite", preserve_resources_on_deletion=True
    )
    second, other = binding_with_dependency("b", "m2")
    raws = [template, other, configmap()]
    alone = attached_binding_in(list(dependencies(first, view(first, second, raws=raws))))
    both = attached_binding_in(list(dependencies(second, view(first, second, alone, raws=raws))))
    second = second.but(spec=second.spec.but(conflict_resolution="Overwrite"))
    seen = view(first, second, both, raws=raws)

    def conflicts() -> list[str]:
        effects = list(dependencies(second, seen))
        seen.memory.keep(effects)
        return [one.message for one in effects if isinstance(one, RecordEvent) and one.type == "Warning"]

    assert conflicts() == []  # what was in force before this process started is not repeated
    seen.memory[CONFLICT, well_known.ref_of(both)] = "Dependency policy conflict detected: of another kind."
    only = "Dependency policy conflict detected: PreserveResourcesOnDeletion conflicted (true vs false)."
    assert conflicts() == [only]
    assert conflicts() == []


def test_changed_dependency_records_events_on_requiring_binding() -> None:
    placed, template = binding_with_dependency("a", "m1")
    seen = view(placed, raws=[template, configmap()])
    effects = list(dependencies(placed, seen))
    annotated = next(w for w in effects if isinstance(w, ResourceBinding) and w.name == placed.name)
    attached = attached_binding_in(effects)

    def reasons_after(version: str) -> list[str]:
        now = view(annotated, attached, raws=[template, configmap(resourceVersion=version)], profile=UPSTREAM)
        for memory in (effect for effect in effects if isinstance(effect, RememberInProcess)):
            now.memory[memory.topic, memory.key] = memory.value
        return [effect.reason for effect in dependencies(annotated, now) if isinstance(effect, RecordEvent)]

    assert reasons_after("7") == []
    assert reasons_after("8") == ["GetDependenciesSucceed", "SyncScheduleResultToDependenciesSucceed"]


def test_upstream_profile_removes_dependency_before_evicted_workload() -> None:
    placed, template = binding_with_dependency("a", "m2")
    task = GracefulEvictionTask(from_cluster="m1", purge_mode="Gracefully", reason="TaintUntolerated", producer="x")
    leaving = placed.but(spec=placed.spec.but(graceful_eviction_tasks=(task,)))

    def clusters(profile: Any) -> list[str]:
        seen = view(leaving, raws=[template, configmap()], profile=profile)
        return [c.name for c in attached_binding_in(list(dependencies(leaving, seen))).spec.required_by[0].clusters]

    assert clusters(TRIMTAB) == ["m2", "m1"]
    assert clusters(UPSTREAM) == ["m2"]
