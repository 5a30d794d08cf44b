"""A deleted Cluster is drained before it leaves the fleet: within budgets, replacement first, never the last copy."""

import asyncio
from typing import Any

import pytest
from builders import NOON, binding, cluster
from move_helpers import PODS, MoveScenario, aggregated, run_scenario
from views import FakeView

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import GracefulEvictionTask, HeldReplicas, Work
from trimtab.api.profile import UPSTREAM
from trimtab.api.selectors import LabelSelector
from trimtab.client.client import Resource, resource_of
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.movement.cluster_departure import cluster_departure, clusters_in_use
from trimtab.errors import NotFound
from trimtab.members.left_objects import remove_left_objects
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride

CLUSTERS = resource_of(kind_of(Cluster))
MANAGED = Resource("cluster.open-cluster-management.io", "v1", "managedclusters", "ManagedCluster", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CLOSED = {"windows": [{"schedule": "30 0 * * *", "duration": "1h"}]}
"""A window that opens half an hour after the start of the tests, which is midnight."""
FORCE = {"metadata": {"annotations": {"trimtab.dev/force-leave": "true"}}}


async def place_in_m2(scene: MoveScenario, *, also: tuple[str, ...] = ("m1", "m3")) -> None:
    """Two replicas in m2, which may go to the other clusters."""
    await scene.create_deployment(replicas=2)
    for name in also:
        await scene.set_taints(name, "closed:NoSchedule")
    await scene.create_policy(aggregated("m2", *also))
    await scene.wait_until_settled("web", {"m2": 2})
    for name in also:
        await scene.set_taints(name)
    scene.record_lowest_ready()


async def leave(scene: MoveScenario, name: str = "m2") -> None:
    await scene.client.delete(CLUSTERS, "", name)


async def is_gone(scene: MoveScenario, name: str = "m2") -> bool:
    return name not in [cluster.name for cluster in await scene.list_all(Cluster)]


async def drained_condition(scene: MoveScenario, name: str = "m2") -> Any:
    return find_condition((await scene.get(Cluster, name)).status.conditions, "Drained")


async def names_in(
    scene: MoveScenario, resource: Resource, member: str = "m2", namespace: str = "default"
) -> list[str]:
    return [raw["metadata"]["name"] for raw in (await scene.world[member].client.list(resource, namespace)).items]


def test_deleted_cluster_is_drained_replacement_first_and_then_removed() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        await leave(scene)
        await scene.wait_until(lambda: is_gone(scene), 120)
        placement = await scene.placement_of()
        assert "m2" not in placement
        await scene.wait_until_settled("web", placement)
        assert scene.lowest_ready["web"] >= 2
        assert await names_in(scene, DEPLOYMENTS) == []
        assert not [one for one in await scene.list_all(Namespace) if one.name == "karmada-es-m2"]
        (move,) = await scene.list_moves()
        assert (move.spec.cause, move.spec.from_, move.spec.mode) == ("Drain", "m2", "ReplacementFirst")
        assert move.status.outcome == "Done"

    run_scenario(act, pace="typical")


def test_closed_budget_keeps_the_cluster_and_says_until_when() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        await scene.create_budget(**CLOSED)
        await leave(scene)
        await asyncio.sleep(600)
        condition = await drained_condition(scene)
        assert (condition.status, condition.reason) == ("False", "Blocked")
        assert "deployment/default/web" in condition.message
        assert "budget careful: no window is open until 2030-01-01 00:30:00Z" in condition.message
        assert await scene.placement_of() == {"m2": 2}
        assert scene.ready_pods() == {"m2": 2}
        assert await scene.list_moves() == []
        await asyncio.sleep(1800)
        assert await is_gone(scene)
        assert scene.lowest_ready["web"] >= 2

    run_scenario(act)


def test_last_copy_stays_while_there_is_nowhere_to_go() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, also=())
        await leave(scene)
        await asyncio.sleep(1200)
        condition = await drained_condition(scene)
        assert (condition.status, condition.reason) == ("False", "Blocked")
        assert "cannot continue Drain" in condition.message
        assert (await scene.placement_of(), scene.ready_pods()) == ({"m2": 2}, {"m2": 2})
        await scene.set_placement(aggregated("m1", "m2"))
        await scene.wait_until(lambda: is_gone(scene), 120)
        await scene.wait_until_settled("web", {"m1": 2})
        assert scene.lowest_ready["web"] >= 2

    run_scenario(act)


def test_edit_of_the_policy_after_a_reverted_move_lets_the_cluster_leave_at_once() -> None:
    """The edit is part of the drain. As such it waited ten minutes, like a drain that is tried again by itself."""

    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, also=("m1",))
        selector = LabelSelector(match_labels={"app": "web"})
        scene.world["m1"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY, "default", selector, ""))
        await leave(scene)

        async def is_reverted() -> bool:
            return [move.status.outcome for move in await scene.list_moves()] == ["Reverted"]

        await scene.wait_until(is_reverted, 120)
        await asyncio.sleep(20)
        assert await scene.placement_of() == {"m2": 2}
        await scene.set_placement(aggregated("m2", "m3"))
        await scene.wait_until(lambda: is_gone(scene), 120)
        await scene.wait_until_settled("web", {"m3": 2})
        assert scene.lowest_ready["web"] >= 2
        assert [move.spec.cause for move in await scene.list_moves()] == ["Drain", "Drain"]

    run_scenario(act, settings={"move-timeout-seconds": 60})


@pytest.mark.parametrize("replicas", [1, 4])
def test_scaling_while_the_cluster_leaves_does_not_take_the_serving_replicas(replicas: int) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        await scene.create_budget(**CLOSED)
        await leave(scene)
        await asyncio.sleep(60)
        await scene.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": replicas}})
        await asyncio.sleep(600)
        assert scene.lowest_ready["web"] >= 2
        assert scene.ready_pods()["m2"] == 2

    run_scenario(act)


def test_update_of_the_template_still_reaches_a_cluster_that_leaves() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, also=())
        await leave(scene)
        await asyncio.sleep(60)
        container = {"name": "main", "image": "app:2"}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await scene.client.patch(DEPLOYMENTS, "default", "web", patch)
        await asyncio.sleep(60)
        found = await scene.world["m2"].client.get(DEPLOYMENTS, "default", "web")
        assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"

    run_scenario(act)


def test_copy_stays_while_the_copy_of_a_duplicated_workload_elsewhere_is_not_ready() -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.create_deployment(replicas=2)
        await scene.create_policy({"clusterAffinity": {"clusterNames": ["m1", "m2"]}})
        await scene.wait_until_settled("web", {"m1": 2, "m2": 2})
        selector = LabelSelector(match_labels={"app": "web"})
        scene.world["m1"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY, "default", selector, ""))
        for pod in (await scene.world["m1"].client.list(PODS, "default")).items:
            await scene.world["m1"].client.delete(PODS, "default", pod["metadata"]["name"])
        await asyncio.sleep(60)
        assert set(scene.ready_pods()) == {"m2"}
        scene.record_lowest_ready()
        await leave(scene)
        await asyncio.sleep(600)
        condition = await drained_condition(scene)
        assert condition.reason == "Blocked"
        assert "no other cluster has a ready copy" in condition.message
        assert scene.lowest_ready["web"] == 2

    run_scenario(act)


def test_cluster_whose_last_copy_is_a_configuration_object_waits_until_that_is_applied_elsewhere() -> None:
    async def act(scene: MoveScenario) -> None:
        metadata = {"name": "conf", "namespace": "default"}
        await scene.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})
        selector = {"apiVersion": "v1", "kind": "ConfigMap"}
        placement = {"clusterAffinity": {"clusterNames": ["m2"]}}
        await scene.create_policy(placement, resourceSelectors=[selector])
        await asyncio.sleep(10)
        await leave(scene)
        await asyncio.sleep(120)
        assert "conf" in await names_in(scene, CONFIGS)
        assert "configmap/default/conf" in (await drained_condition(scene)).message
        await scene.set_placement({"clusterAffinity": {"clusterNames": ["m1", "m2"]}})
        await scene.wait_until(lambda: is_gone(scene), 120)
        assert "conf" in await names_in(scene, CONFIGS, "m1")

    run_scenario(act)


def test_workload_whose_scheduling_is_suspended_blocks_and_is_named() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        binding = resource_of(kind_of(await scene.get_binding()))
        suspended = {"spec": {"suspension": {"scheduling": True}}}
        await scene.client.patch(binding, "default", "web-deployment", suspended)
        await leave(scene)
        await asyncio.sleep(300)
        assert "its scheduling is suspended" in (await drained_condition(scene)).message
        assert scene.ready_pods() == {"m2": 2}

    run_scenario(act)


def test_forced_departure_deletes_at_once_and_the_binding_says_so() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, also=())
        await scene.create_budget(**CLOSED)
        await leave(scene)
        await asyncio.sleep(60)
        assert not await is_gone(scene)
        await scene.patch(Cluster, "m2", FORCE)
        await scene.wait_until(lambda: is_gone(scene), 60)
        assert await scene.placement_of() == {}
        assert await names_in(scene, DEPLOYMENTS) == []
        binding = await scene.get_binding()
        assert find_condition(binding.status.conditions, "Scheduled").status == "False"
        assert find_condition(binding.status.conditions, "Stalled").status == "False"
        (move,) = await scene.list_moves()
        assert (move.spec.from_, move.spec.replicas, move.spec.mode) == ("m2", 2, "AtOnce")
        assert "forced" in move.spec.message
        await scene.set_placement(aggregated("m1"))
        await scene.wait_until_settled("web", {"m1": 2})

    run_scenario(act)


def test_forced_departure_places_what_fits_elsewhere() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene, also=("m1",))
        await scene.create_budget(**CLOSED)
        await scene.patch(Cluster, "m2", FORCE)
        await asyncio.sleep(60)
        assert scene.ready_pods() == {"m2": 2}  # the annotation alone does nothing
        await leave(scene)
        await scene.wait_until(lambda: is_gone(scene), 60)
        await scene.wait_until_settled("web", {"m1": 2})

    run_scenario(act)


def test_upstream_deletes_works_at_once() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        await scene.create_budget(**CLOSED)
        await leave(scene)
        await scene.wait_until(lambda: is_gone(scene), 60)
        assert await names_in(scene, DEPLOYMENTS) == []

    run_scenario(act, profile=UPSTREAM)


def test_cluster_that_does_not_answer_leaves_once_its_workloads_run_elsewhere() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m2(scene)
        scene.world["m2"].stop_api()
        await asyncio.sleep(60)
        await leave(scene)
        await scene.wait_until(lambda: is_gone(scene), 1500)
        assert "m2" not in await scene.placement_of()
        assert not [work for work in await scene.list_all(Work) if work.namespace == "karmada-es-m2"]
        scene.world["m2"].start_api()
        member = scene.world["m2"].client
        assert await names_in(scene, DEPLOYMENTS) == ["web"]
        assert await remove_left_objects(scene.client, member, await read_identity(scene.client)) == [
            "Deployment/default/web"
        ], "as a join does, so that nothing is orphaned"
        assert await names_in(scene, DEPLOYMENTS) == []

    run_scenario(act)


def test_objects_that_were_created_by_others_stay_in_the_member() -> None:
    async def act(scene: MoveScenario) -> None:
        member = scene.world["m2"].client
        for name in ("team", "empty"):
            await scene.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await asyncio.sleep(10)
        foreign = {"name": "theirs", "namespace": "team"}
        await member.create(CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": foreign})
        adopted = {"name": "conf", "namespace": "default"}
        await member.create(CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": adopted, "data": {"a": "b"}})
        await scene.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": adopted, "data": {"k": "v"}})
        own = {"name": "own", "namespace": "team"}
        await scene.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own, "data": {"k": "v"}})
        selector = {"apiVersion": "v1", "kind": "ConfigMap"}
        kind = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
        spec = {"resourceSelectors": [selector], "placement": {}, "conflictResolution": "Overwrite"}
        for namespace in ("default", "team"):
            await scene.create({**kind, "metadata": {"name": "all", "namespace": namespace}, "spec": spec})
        await asyncio.sleep(30)
        assert (await member.get(CONFIGS, "default", "conf"))["data"] == {"k": "v"}
        assert "own" in await names_in(scene, CONFIGS, namespace="team")
        await leave(scene)
        await scene.wait_until(lambda: is_gone(scene), 120)
        await asyncio.sleep(10)
        released = await member.get(CONFIGS, "default", "conf")
        assert "karmada.io/managed" not in (released["metadata"].get("labels") or {})
        assert "trimtab.dev/adopted" not in (released["metadata"].get("annotations") or {})
        assert [one for one in await names_in(scene, CONFIGS, namespace="team") if one != "kube-root-ca.crt"] == [
            "theirs"
        ]
        with pytest.raises(NotFound):
            await member.get(NAMESPACES, "", "empty")

    run_scenario(act)


def placement_objects(clusters: int = 1) -> list[dict[str, Any]]:
    group = {"apiVersion": "cluster.open-cluster-management.io/v1beta2"}
    metadata = {"name": "all", "namespace": "default"}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "agent", "namespace": "default"},
        "data": {"k": "v"},
    }
    return [
        {**group, "kind": "ManagedClusterSetBinding", "metadata": {**metadata, "name": "global"}, "spec": {"clusterSet": "global"}},
        {
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "Placement",
            "metadata": metadata,
            "spec": {"numberOfClusters": clusters, "predicates": [
                {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"role": "edge"}}}}
            ]},
        },
        {
            "apiVersion": "work.open-cluster-management.io/v1alpha1",
            "kind": "ManifestWorkReplicaSet",
            "metadata": {**metadata, "name": "agents"},
            "spec": {
                "placementRefs": [{"name": "all"}],
                "manifestWorkTemplate": {"workload": {"manifests": [manifest]}},
            },
        },
    ]  # fmt: skip


async def select_m2(scene: MoveScenario) -> None:
    await scene.patch(Cluster, "m2", {"metadata": {"labels": {"role": "edge"}}})
    for raw in placement_objects():
        await scene.create(raw)
    await asyncio.sleep(60)
    assert "agent" in await names_in(scene, CONFIGS)


@pytest.mark.parametrize("deleted", ["Cluster", "ManagedCluster"])
def test_work_of_a_replica_set_stays_until_it_serves_elsewhere(deleted: str) -> None:
    async def act(scene: MoveScenario) -> None:
        await select_m2(scene)
        await scene.client.delete(CLUSTERS if deleted == "Cluster" else MANAGED, "", "m2")
        await asyncio.sleep(1200)
        assert "agent" in await names_in(scene, CONFIGS)
        condition = await drained_condition(scene)
        assert condition.reason == "Blocked"
        assert "no work of the set serves in another cluster" in condition.message
        await scene.patch(Cluster, "m1", {"metadata": {"labels": {"role": "edge"}}})
        await scene.wait_until(lambda: is_gone(scene), 300)
        assert "agent" in await names_in(scene, CONFIGS, "m1")
        assert "agent" not in await names_in(scene, CONFIGS)
        await asyncio.sleep(30)
        assert [(move.spec.cause, move.spec.from_) for move in await scene.list_moves()] == [("Drain", "m2")]
        assert "m2" not in [raw["metadata"]["name"] for raw in (await scene.client.list(MANAGED)).items]
        assert "m2" not in [one.name for one in await scene.list_all(Namespace)]

    run_scenario(act)


def test_works_that_were_created_for_the_cluster_block_until_they_are_deleted_or_forced_out() -> None:
    async def act(scene: MoveScenario) -> None:
        metadata = {"name": "own", "namespace": "default"}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
        for kind, group, namespace in (
            ("ManifestWork", "work.open-cluster-management.io/v1", "m2"),
            ("Work", "work.karmada.io/v1alpha1", "karmada-es-m2"),
        ):
            manifest = {**manifest, "metadata": {**metadata, "name": kind.lower()}}
            spec = {"workload": {"manifests": [manifest]}}
            finalizers = ["karmada.io/execution-controller"] if kind == "Work" else []
            where = {"name": "mine", "namespace": namespace, "finalizers": finalizers}
            await scene.create({"apiVersion": group, "kind": kind, "metadata": where, "spec": spec})
        await asyncio.sleep(30)
        await leave(scene)
        await asyncio.sleep(120)
        message = (await drained_condition(scene)).message
        assert "manifestwork/mine: it was created for this cluster" in message
        assert "; work/mine: it was created for this cluster and belongs to no policy" in message
        assert {"manifestwork"} <= set(await names_in(scene, CONFIGS))
        await scene.patch(Cluster, "m2", FORCE)
        await scene.wait_until(lambda: is_gone(scene), 120)
        assert "manifestwork" not in await names_in(scene, CONFIGS)

    run_scenario(act)


def test_cluster_is_in_use_while_replicas_are_placed_held_or_being_evicted_there() -> None:
    held = HeldReplicas(cluster="m2", replicas=1)
    task = GracefulEvictionTask(from_cluster="m3", replicas=1, reason="R", producer="x")
    subject = binding(clusters={"m1": 2}, graceful_eviction_tasks=(task,), status_holds=(held,))
    assert set(clusters_in_use(subject)) == {"m1", "m2", "m3"}


@pytest.mark.parametrize(
    ("ready", "said"), [("True", "nothing is left"), ("False", "copies in it stay until it joins")]
)
def test_report_does_not_say_that_a_cluster_is_empty_which_does_not_answer(ready: str, said: str) -> None:
    subject = cluster("m2", ready=ready)
    subject = subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    changed = next(iter(cluster_departure(subject, FakeView([subject]))))
    assert isinstance(changed, Cluster)
    condition = find_condition(changed.status.conditions, "Drained")
    assert condition is not None
    assert (condition.status, said in condition.message) == ("True", True)
