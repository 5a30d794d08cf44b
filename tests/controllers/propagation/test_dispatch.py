"""Every target cluster has one Work; nobody else has any."""

from datetime import timedelta

import msgspec
from builders import NOON, binding, cluster, deployment, works
from views import FakeView

from trimtab.api.kinds.policy import OverridePolicy
from trimtab.api.kinds.work import GracefulEvictionTask, Hold, TargetCluster
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Gone, Note, Remember
from trimtab.controllers.propagation.dispatch import dispatch, expected_clusters, targets
from trimtab.interpret.interpreter import Interpreter


def view(*things, raws=(), **more) -> FakeView:
    return FakeView(things, raws=raws or [deployment()], parts={"interpreter": Interpreter.of()}, **more)


def born(work, version="4"):
    return work.but(metadata=work.metadata.but(resource_version=version))


def test_each_target_gets_a_work_with_its_share() -> None:
    made = works(list(dispatch(binding(clusters={"m1": 2, "m2": 1}), view(cluster("m1"), cluster("m2")))))
    assert {name: work.spec.workload.manifests[0]["spec"]["replicas"] for name, work in made.items()} == {
        "m1": 2,
        "m2": 1,
    }
    assert made["m1"].metadata.finalizers == (well_known.WORK_FINALIZER,)


def test_the_manifest_knows_where_it_comes_from_and_lists_what_we_manage() -> None:
    (work,) = works(list(dispatch(binding(clusters={"m1": 1}), view()))).values()
    metadata = work.spec.workload.manifests[0]["metadata"]
    assert metadata["labels"][well_known.MANAGED] == "true"
    assert metadata["annotations"][well_known.WORK_NAME] == work.name
    listed = metadata["annotations"][well_known.MANAGED_ANNOTATIONS].split(",")
    assert listed == sorted(metadata["annotations"])
    assert "uid" not in metadata


def test_a_work_that_is_as_it_should_be_is_left_alone() -> None:
    placed = binding(clusters={"m1": 1})
    (work,) = works(list(dispatch(placed, view()))).values()
    assert works(list(dispatch(placed, view(born(work))))) == {}


def test_a_cluster_that_is_no_longer_a_target_loses_its_work() -> None:
    before = binding(clusters={"m1": 1, "m2": 1})
    made = works(list(dispatch(before, view())))
    wishes = list(dispatch(binding(clusters={"m1": 2}), view(*map(born, made.values()))))
    assert [well_known.cluster_of(wish.target.namespace) for wish in wishes if isinstance(wish, Gone)] == ["m2"]


def test_a_cluster_that_is_left_graciously_keeps_its_work_as_it_was() -> None:
    before = binding(clusters={"m1": 3})
    made = works(list(dispatch(before, view())))
    task = GracefulEvictionTask(from_cluster="m1", purge_mode="Gracefully")
    after = binding(clusters={"m2": 3}, graceful_eviction_tasks=(task,))
    wishes = list(dispatch(after, view(*map(born, made.values()))))
    assert not [wish for wish in wishes if isinstance(wish, Gone)]
    assert list(works(wishes)) == ["m2"]


def test_nothing_new_starts_before_a_cluster_left_directly_is_empty() -> None:
    made = works(list(dispatch(binding(clusters={"m1": 3}), view())))
    task = GracefulEvictionTask(from_cluster="m1", purge_mode="Directly")
    after = binding(clusters={"m2": 3}, graceful_eviction_tasks=(task,))
    gone, again = dispatch(after, view(*map(born, made.values())))
    assert isinstance(gone, Gone)
    assert isinstance(again, Again)
    assert list(works(list(dispatch(after, view())))) == ["m2"]


def test_a_hold_keeps_replicas_beyond_the_placement() -> None:
    held = binding(clusters={"m2": 3}, status_holds=(Hold(cluster="m1", replicas=2), Hold(cluster="m2", replicas=1)))
    assert {t.name: t.replicas for t in targets(held)} == {"m2": 4, "m1": 2}
    assert expected_clusters(held) == {"m1", "m2"}


def test_a_dependency_goes_where_it_is_required() -> None:
    from trimtab.api.kinds.work import BindingSnapshot

    needed = binding(required_by=(BindingSnapshot(name="app", clusters=(TargetCluster(name="m3", replicas=2),)),))
    assert expected_clusters(needed) == {"m3"}


def test_a_deleted_binding_takes_its_works_along() -> None:
    placed = binding(clusters={"m1": 1})
    made = works(list(dispatch(placed, view())))
    dying = placed.but(metadata=placed.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))
    gone, forgotten = dispatch(dying, view(*map(born, made.values())))
    assert isinstance(gone, Gone)
    assert forgotten.metadata.finalizers == ()


def override(name: str, overriders: dict) -> OverridePolicy:
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


def test_an_override_changes_only_the_clusters_it_means() -> None:
    image = override("op", {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "1.26"}]})
    placed = binding(clusters={"m1": 1, "m2": 1})
    wishes = list(dispatch(placed, view(image, cluster("m1"), cluster("m2"))))
    made = works(wishes)
    images = {
        n: w.spec.workload.manifests[0]["spec"]["template"]["spec"]["containers"][0]["image"] for n, w in made.items()
    }
    assert images == {"m1": "nginx:1.26", "m2": "nginx:1.25"}
    assert well_known.APPLIED_OVERRIDES in made["m1"].metadata.annotations
    assert any(isinstance(wish, Note) and wish.reason == "ApplyOverridePolicySucceed" for wish in wishes)


def test_a_changed_override_is_told_of_even_where_it_changes_nothing() -> None:
    image = override("op", {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "1.26"}]})
    placed = binding(clusters={"m1": 1})
    before = view(image, cluster("m1"), profile=UPSTREAM)
    wishes = list(dispatch(placed, before))
    (work,) = works(wishes).values()
    (remembered,) = [wish for wish in wishes if isinstance(wish, Remember)]

    def told(policy: OverridePolicy) -> list[str]:
        after = view(policy, cluster("m1"), born(work), profile=UPSTREAM)
        after.memory[remembered.topic, remembered.key] = remembered.value
        return [wish.reason for wish in dispatch(placed, after) if isinstance(wish, Note)]

    assert told(image) == []
    edited = image.but(metadata=image.metadata.but(generation=7))
    assert told(edited) == ["ApplyOverridePolicySucceed", "SyncWorkSucceed", "SyncWorkSucceed"]


def test_that_nothing_is_sent_yet_is_told_only_as_upstream() -> None:
    def told(**profile) -> list[str]:
        return [wish.reason for wish in dispatch(binding(clusters={}), view(**profile)) if isinstance(wish, Note)]

    assert told() == []
    assert told(profile=UPSTREAM) == ["SyncWorkSucceed", "SyncWorkSucceed"]


def test_an_override_that_cannot_be_applied_stops_only_its_cluster_and_says_so() -> None:
    broken = override("op", {"plaintext": [{"path": "/spec/nowhere/x", "operator": "replace", "value": 1}]})
    wishes = list(dispatch(binding(clusters={"m1": 1, "m2": 1}), view(broken, cluster("m1"), cluster("m2"))))
    assert list(works(wishes)) == ["m2"]
    why = "replace operation does not apply: doc is missing path: /spec/nowhere/x: missing value"
    assert [wish[1:4] for wish in wishes if isinstance(wish, Note) and wish.type == "Warning"] == [
        ("ApplyOverridePolicyFailed", "Apply override policy(demo/op) for cluster(m1) failed.", "override-manager"),
        ("SyncWorkFailed", why, "binding-controller"),
        ("SyncWorkFailed", why, "binding-controller"),
    ]
