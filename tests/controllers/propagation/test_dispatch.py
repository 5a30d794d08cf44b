"""Every target cluster has one Work, and no other cluster has any."""

from datetime import timedelta

import msgspec
from builders import NOON, binding, cluster, deployment, works_by_cluster
from views import FakeView

from trimtab.api.kinds.override_policy import OverridePolicy
from trimtab.api.kinds.work import GracefulEvictionTask, HeldReplicas, TargetCluster
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, RecordEvent, RememberInProcess, RequeueAfter
from trimtab.controllers.propagation.dispatch import dispatch, expected_clusters, targets_of
from trimtab.interpret.interpreter import Interpreter


def view(*things, raws=(), **more) -> FakeView:
    return FakeView(things, raws=raws or [deployment()], interpreter=Interpreter.of(), **more)


def stored(work, version="4"):
    return work.but(metadata=work.metadata.but(resource_version=version))


def test_each_target_cluster_gets_work_with_its_replicas() -> None:
    made = works_by_cluster(list(dispatch(binding(clusters={"m1": 2, "m2": 1}), view(cluster("m1"), cluster("m2")))))
    assert {name: work.spec.workload.manifests[0]["spec"]["replicas"] for name, work in made.items()} == {
        "m1": 2,
        "m2": 1,
    }
    assert made["m1"].metadata.finalizers == (well_known.WORK_FINALIZER,)


def test_manifest_names_its_work_and_lists_managed_metadata() -> None:
    (work,) = works_by_cluster(list(dispatch(binding(clusters={"m1": 1}), view()))).values()
    metadata = work.spec.workload.manifests[0]["metadata"]
    assert metadata["labels"][well_known.MANAGED] == "true"
    assert metadata["annotations"][well_known.WORK_NAME] == work.name
    listed = metadata["annotations"][well_known.MANAGED_ANNOTATIONS].split(",")
    assert listed == sorted(metadata["annotations"])
    assert "uid" not in metadata


def test_correct_work_is_not_written() -> None:
    placed = binding(clusters={"m1": 1})
    (work,) = works_by_cluster(list(dispatch(placed, view()))).values()
    assert works_by_cluster(list(dispatch(placed, view(stored(work))))) == {}


def claimed(template: dict) -> dict:
    marks = {"labels": {well_known.CPP_ID: "1"}, "annotations": {well_known.CPP_NAME: "all"}}
    return {**template, "metadata": {**template["metadata"], **marks}}


def test_restart_does_not_write_works_that_only_have_the_marks_of_a_released_template() -> None:
    """Karmada leaves the marks of a deleted policy in Works and members."""
    placed = binding(clusters={"m1": 1})
    (work,) = works_by_cluster(list(dispatch(placed, view(raws=[claimed(deployment())])))).values()
    assert works_by_cluster(list(dispatch(placed, view(stored(work))))) == {}
    edited = deployment(generation=2)
    (rewritten,) = works_by_cluster(list(dispatch(placed, view(stored(work), raws=[edited])))).values()
    assert well_known.CPP_ID not in rewritten.spec.workload.manifests[0]["metadata"]["labels"]


def test_work_of_former_target_is_deleted() -> None:
    before = binding(clusters={"m1": 1, "m2": 1})
    made = works_by_cluster(list(dispatch(before, view())))
    effects = list(dispatch(binding(clusters={"m1": 2}), view(*map(stored, made.values()))))
    assert [well_known.cluster_of(effect.target.namespace) for effect in effects if isinstance(effect, Delete)] == [
        "m2"
    ]


def test_work_stays_unchanged_during_graceful_eviction() -> None:
    before = binding(clusters={"m1": 3})
    made = works_by_cluster(list(dispatch(before, view())))
    task = GracefulEvictionTask(from_cluster="m1", purge_mode="Gracefully")
    after = binding(clusters={"m2": 3}, graceful_eviction_tasks=(task,))
    effects = list(dispatch(after, view(*map(stored, made.values()))))
    assert not [effect for effect in effects if isinstance(effect, Delete)]
    assert list(works_by_cluster(effects)) == ["m2"]


def test_no_new_work_before_directly_purged_cluster_is_empty() -> None:
    made = works_by_cluster(list(dispatch(binding(clusters={"m1": 3}), view())))
    task = GracefulEvictionTask(from_cluster="m1", purge_mode="Directly")
    after = binding(clusters={"m2": 3}, graceful_eviction_tasks=(task,))
    deletion, requeue = dispatch(after, view(*map(stored, made.values())))
    assert isinstance(deletion, Delete)
    assert isinstance(requeue, RequeueAfter)
    assert list(works_by_cluster(list(dispatch(after, view())))) == ["m2"]


def test_hold_adds_to_replicas_of_placement() -> None:
    held = binding(
        clusters={"m2": 3},
        status_holds=(HeldReplicas(cluster="m1", replicas=2), HeldReplicas(cluster="m2", replicas=1)),
    )
    assert {t.name: t.replicas for t in targets_of(held)} == {"m2": 4, "m1": 2}
    assert expected_clusters(held) == {"m1", "m2"}


def test_dependency_has_works_where_it_is_required() -> None:
    from trimtab.api.kinds.work import BindingSnapshot

    needed = binding(required_by=(BindingSnapshot(name="app", clusters=(TargetCluster(name="m3", replicas=2),)),))
    assert expected_clusters(needed) == {"m3"}


def test_deleted_binding_deletes_its_works() -> None:
    placed = binding(clusters={"m1": 1})
    made = works_by_cluster(list(dispatch(placed, view())))
    deleted = placed.but(metadata=placed.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))
    deletion, finalized = dispatch(deleted, view(*map(stored, made.values())))
    assert isinstance(deletion, Delete)
    assert finalized.metadata.finalizers == ()


def override_policy(name: str, overriders: dict) -> OverridePolicy:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "demo"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "demo"}],
                "overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": overriders}],
            },
        },
        OverridePolicy,
    )


def test_override_changes_only_its_target_clusters() -> None:
    image = override_policy("op", {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "1.26"}]})
    placed = binding(clusters={"m1": 1, "m2": 1})
    effects = list(dispatch(placed, view(image, cluster("m1"), cluster("m2"))))
    made = works_by_cluster(effects)
    images = {
        n: w.spec.workload.manifests[0]["spec"]["template"]["spec"]["containers"][0]["image"] for n, w in made.items()
    }
    assert images == {"m1": "nginx:1.26", "m2": "nginx:1.25"}
    assert well_known.APPLIED_OVERRIDES in made["m1"].metadata.annotations
    assert any(isinstance(effect, RecordEvent) and effect.reason == "ApplyOverridePolicySucceed" for effect in effects)


def test_changed_override_records_events_in_upstream_profile_even_without_difference() -> None:
    image = override_policy("op", {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "1.26"}]})
    placed = binding(clusters={"m1": 1})
    before = view(image, cluster("m1"), profile=UPSTREAM)
    effects = list(dispatch(placed, before))
    (work,) = works_by_cluster(effects).values()
    (remembered,) = [effect for effect in effects if isinstance(effect, RememberInProcess)]

    def event_reasons(policy: OverridePolicy) -> list[str]:
        after = view(policy, cluster("m1"), stored(work), profile=UPSTREAM)
        after.memory[remembered.topic, remembered.key] = remembered.value
        return [effect.reason for effect in dispatch(placed, after) if isinstance(effect, RecordEvent)]

    assert event_reasons(image) == []
    edited = image.but(metadata=image.metadata.but(generation=7))
    assert event_reasons(edited) == ["ApplyOverridePolicySucceed", "SyncWorkSucceed", "SyncWorkSucceed"]


def test_dispatch_without_targets_records_events_only_in_upstream_profile() -> None:
    def event_reasons(**profile) -> list[str]:
        return [
            effect.reason
            for effect in dispatch(binding(clusters={}), view(**profile))
            if isinstance(effect, RecordEvent)
        ]

    assert event_reasons() == []
    assert event_reasons(profile=UPSTREAM) == ["SyncWorkSucceed", "SyncWorkSucceed"]


def test_override_that_makes_another_object_fails_but_in_the_upstream_profile() -> None:
    moves = override_policy(
        "op", {"plaintext": [{"path": "/metadata/namespace", "operator": "replace", "value": "kube-system"}]}
    )
    placed, objects = binding(clusters={"m1": 1}), (moves, cluster("m1"))
    assert works_by_cluster(list(dispatch(placed, view(*objects)))) == {}
    assert list(works_by_cluster(list(dispatch(placed, view(*objects, profile=UPSTREAM))))) == ["m1"]


def test_failed_override_skips_only_its_cluster_and_records_events() -> None:
    broken = override_policy("op", {"plaintext": [{"path": "/spec/nowhere/x", "operator": "replace", "value": 1}]})
    effects = list(dispatch(binding(clusters={"m1": 1, "m2": 1}), view(broken, cluster("m1"), cluster("m2"))))
    assert list(works_by_cluster(effects)) == ["m2"]
    why = "replace operation does not apply: doc is missing path: /spec/nowhere/x: missing value"
    assert [effect[1:4] for effect in effects if isinstance(effect, RecordEvent) and effect.type == "Warning"] == [
        ("ApplyOverridePolicyFailed", "Apply override policy(demo/op) for cluster(m1) failed.", "override-manager"),
        ("SyncWorkFailed", why, "binding-controller"),
        ("SyncWorkFailed", why, "binding-controller"),
    ]
