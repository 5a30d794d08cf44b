"""What a workload needs goes where the workload goes, and is told of when it changes."""

from typing import Any

from builders import binding, configmap, deployment
from views import FakeView

from trimtab.api.kinds.work import GracefulEvictionTask, ResourceBinding
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Note, Remember
from trimtab.controllers.propagation.dependencies import concerns_dependencies, dependencies
from trimtab.interpret.interpreter import Interpreter


def needy(name: str, cluster: str, **fields: Any) -> tuple[ResourceBinding, Raw]:
    """A binding that takes its ConfigMap along, and its template."""
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
    return FakeView(bindings, raws=raws, parts={"interpreter": Interpreter.of()}, **more)


def attached_by(wishes: list[Any]) -> ResourceBinding:
    (made,) = [wish for wish in wishes if isinstance(wish, ResourceBinding) and wish.name == "conf-configmap"]
    return made


def test_what_is_needed_follows_and_those_who_ask_stay_in_the_order_in_which_they_asked() -> None:
    second, other = needy("b", "m2")
    first, template = needy("a", "m1")
    raws = [template, other, configmap()]
    after_b = attached_by(list(dependencies(second, view(second, first, raws=raws))))
    after_a = attached_by(list(dependencies(first, view(second, first, after_b, raws=raws))))
    assert [(s.name, [c.name for c in s.clusters]) for s in after_a.spec.required_by] == [
        ("b-deployment", ["m2"]),
        ("a-deployment", ["m1"]),
    ]


def test_a_workload_that_is_not_placed_yet_takes_nothing_along() -> None:
    placed, template = needy("a", "m1")
    waiting = placed.but(spec=placed.spec.but(clusters=()))
    assert list(dependencies(waiting, view(waiting, raws=[template, configmap()]))) == []


def test_who_takes_nothing_along_is_not_looked_at_and_who_took_something_once_is() -> None:
    plain = binding("a", clusters={"m1": 1})
    needing, _ = needy("a", "m1")
    finalizers = (*plain.metadata.finalizers, well_known.DEPENDENCIES_FINALIZER)
    once = plain.but(metadata=plain.metadata.but(finalizers=finalizers))
    assert not concerns_dependencies(None, plain)
    assert concerns_dependencies(None, needing)
    assert concerns_dependencies(None, once)
    assert not concerns_dependencies(needing, needing)


def test_the_rules_of_all_who_ask_count_as_they_are_now_and_a_disagreement_is_told() -> None:
    bold, template = needy("a", "m1", conflict_resolution="Overwrite")
    careful, other = needy("b", "m2", preserve_resources_on_deletion=True)
    raws = [template, other, configmap()]
    alone = attached_by(list(dependencies(bold, view(bold, careful, raws=raws))))
    assert (alone.spec.conflict_resolution, alone.spec.preserve_resources_on_deletion) == ("Overwrite", False)
    wishes = list(dependencies(careful, view(bold, careful, alone, raws=raws)))
    both = attached_by(wishes)
    assert (both.spec.conflict_resolution, both.spec.preserve_resources_on_deletion) == ("Overwrite", True)
    (told,) = [wish for wish in wishes if isinstance(wish, Note) and wish.type == "Warning"]
    assert (told.reason, told.message) == (
        "DependencyPolicyConflict",
        (
            "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); "
            "PreserveResourcesOnDeletion conflicted (true vs false)."
        ),
    )
    tamed = bold.but(spec=bold.spec.but(conflict_resolution="Abort"))
    after = attached_by(list(dependencies(tamed, view(tamed, careful, both, raws=raws))))
    assert after.spec.conflict_resolution == "Abort"


def test_a_changed_dependency_is_told_of_to_those_who_need_it() -> None:
    placed, template = needy("a", "m1")
    seen = view(placed, raws=[template, configmap()])
    wishes = list(dependencies(placed, seen))
    introduced = next(w for w in wishes if isinstance(w, ResourceBinding) and w.name == placed.name)
    attached = attached_by(wishes)

    def told(version: str) -> list[str]:
        now = view(introduced, attached, raws=[template, configmap(resourceVersion=version)], profile=UPSTREAM)
        for memory in (wish for wish in wishes if isinstance(wish, Remember)):
            now.memory[memory.topic, memory.key] = memory.value
        return [wish.reason for wish in dependencies(introduced, now) if isinstance(wish, Note)]

    assert told("7") == []
    assert told("8") == ["GetDependenciesSucceed", "SyncScheduleResultToDependenciesSucceed"]


def test_upstream_lets_the_dependency_go_before_the_workload_that_is_being_evicted() -> None:
    placed, template = needy("a", "m2")
    task = GracefulEvictionTask(from_cluster="m1", purge_mode="Gracefully", reason="TaintUntolerated", producer="x")
    leaving = placed.but(spec=placed.spec.but(graceful_eviction_tasks=(task,)))

    def clusters(profile: Any) -> list[str]:
        seen = view(leaving, raws=[template, configmap()], profile=profile)
        return [c.name for c in attached_by(list(dependencies(leaving, seen))).spec.required_by[0].clusters]

    assert clusters(TRIMTAB) == ["m2", "m1"]
    assert clusters(UPSTREAM) == ["m2"]
