"""The Work of one cluster is rendered from template, binding and overrides."""

import pytest
from builders import binding, deployment, placement
from views import FakeView

from trimtab.api.kinds.policy import SuspendClusters
from trimtab.api.kinds.work import BindingSuspension, GracefulEvictionTask, TargetCluster
from trimtab.controllers import well_known
from trimtab.controllers.propagation.work_rendering import (
    WorkRenderer,
    conflict_resolution,
    divide_completions,
    is_suspended,
)
from trimtab.interpret.interpreter import Interpreter

DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided"})
JOB = {"kind": "Job", "spec": {"completions": 6}}
TARGETS = [TargetCluster(name="m1", replicas=2), TargetCluster(name="m2", replicas=1)]


def test_completions_are_divided_like_the_replicas() -> None:
    divided = binding(clusters={"m1": 2, "m2": 1}, placement=DIVIDED)
    assert divide_completions(divided, JOB, TARGETS) == {"m1": 4, "m2": 2}
    assert divide_completions(binding(clusters={"m1": 2, "m2": 1}), JOB, TARGETS) == {}
    assert divide_completions(divided, JOB | {"kind": "Deployment"}, TARGETS) == {}


@pytest.mark.parametrize(
    ("annotation", "policy", "expected"),
    [("", "Abort", "abort"), ("", "Overwrite", "overwrite"), ("abort", "Overwrite", "abort"), ("x", "Abort", "abort")],
)
def test_annotation_of_template_wins_over_policy(annotation: str, policy: str, expected: str) -> None:
    template = deployment(annotations={well_known.CONFLICT_RESOLUTION: annotation})
    assert conflict_resolution(template, binding(conflict_resolution=policy)) == expected


def test_suspension_applies_to_all_or_to_named_clusters() -> None:
    some = BindingSuspension(dispatching_on_clusters=SuspendClusters(cluster_names=("m1",)))
    assert not is_suspended(binding(), "m1")
    assert is_suspended(binding(suspension=BindingSuspension(dispatching=True)), "m1")
    assert [is_suspended(binding(suspension=some), name) for name in ("m1", "m2")] == [True, False]


@pytest.mark.parametrize(("purge", "expected"), [("Directly", "9"), ("Immediately", "9"), ("Gracefully", None)])
def test_preserved_state_is_set_only_after_direct_purge(purge: str, expected: str | None) -> None:
    task = GracefulEvictionTask(
        from_cluster="m1", purge_mode=purge, clusters_before_failover=("m1",), preserved_label_state={"offset": "9"}
    )
    moved = binding(clusters={"m2": 1}, graceful_eviction_tasks=(task,))
    template, target = deployment(), TargetCluster(name="m2", replicas=1)
    view = FakeView(interpreter=Interpreter.of())
    work = WorkRenderer(moved, template, [target], view).render(target).work
    assert well_known.labels_of(work.spec.workload.manifests[0]).get("offset") == expected


def test_works_of_one_binding_share_nothing_that_differs_by_cluster() -> None:
    subject, template = binding(clusters={"m1": 2, "m2": 1}), deployment()
    renderer = WorkRenderer(subject, template, TARGETS, FakeView(interpreter=Interpreter.of()))
    one, two = (renderer.render(target).work for target in TARGETS)
    assert (one.name, one.metadata.annotations) == (two.name, two.metadata.annotations)
    assert (one.namespace, two.namespace) == ("karmada-es-m1", "karmada-es-m2")
    assert one.metadata.labels[well_known.WORK_ID] != two.metadata.labels[well_known.WORK_ID]
    assert [work.spec.workload.manifests[0]["spec"]["replicas"] for work in (one, two)] == [2, 1]
    assert (
        one == WorkRenderer(subject, template, TARGETS, FakeView(interpreter=Interpreter.of())).render(TARGETS[0]).work
    )


def test_the_id_of_an_existing_work_stays() -> None:
    template, target = deployment(), TargetCluster(name="m1", replicas=1)
    found = FakeView(interpreter=Interpreter.of())
    first = WorkRenderer(binding(), template, [target], found).render(target).work
    drawn = first.but(metadata=first.metadata.but(labels={**first.metadata.labels, well_known.WORK_ID: "drawn"}))
    view = FakeView([drawn], interpreter=Interpreter.of())
    again = WorkRenderer(binding(), template, [target], view).render(target).work
    assert again.metadata.labels[well_known.WORK_ID] == "drawn"
    assert well_known.labels_of(again.spec.workload.manifests[0])[well_known.WORK_ID] == "drawn"
