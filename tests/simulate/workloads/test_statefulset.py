import asyncio

from simulate.fixtures import PODS, STATEFULSETS, fleet, new_image, run_in_member, statefulset, status, without_times
from trimtab.client.client import Resource
from trimtab.simulate.fleet import Pace
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride
from trimtab.simulate.member import SimulatedMember

SLOW = Pace(start=2, ready=1, stop=1)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")


def test_pods_are_created_in_order_each_after_the_previous_is_ready() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=3))
        seen = []
        for _ in range(200):
            await asyncio.sleep(0.1)
            seen.append(tuple((pod.name, pod.is_ready) for pod in member.pods))
        for moment in seen:
            assert all(ready for _, ready in moment[:-1]), "the next pod came before the one before it was ready"
        assert seen[-1] == (("db-0", True), ("db-1", True), ("db-2", True))

    run_in_member(scenario, fleet(pace=SLOW))


def test_the_status_is_as_kubernetes_writes_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=4, spec={"podManagementPolicy": "Parallel"}))
        await asyncio.sleep(5)
        seen = without_times(await status(member.client, STATEFULSETS, "db"))
        revision = seen["updateRevision"]
        assert seen == {
            "observedGeneration": 1,
            "replicas": 4,
            "readyReplicas": 4,
            "currentReplicas": 4,
            "updatedReplicas": 4,
            "availableReplicas": 4,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
            "conditions": [],
        }
        assert member.pods[0].metadata.labels["apps.kubernetes.io/pod-index"] == "0"

    run_in_member(scenario)


def test_rolling_update_goes_down_from_the_highest_ordinal_one_at_a_time() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=3))
        await asyncio.sleep(30)
        await member.client.patch(STATEFULSETS, "default", "db", new_image("app:2"), type="strategic")
        order: list[str] = []
        for _ in range(400):
            await asyncio.sleep(0.1)
            assert sum(pod.is_ready for pod in member.pods) >= 2
            order += [
                pod.name for pod in member.pods if pod.spec.containers[0].image == "app:2" and pod.name not in order
            ]
        assert order == ["db-2", "db-1", "db-0"]
        seen = await status(member.client, STATEFULSETS, "db")
        assert seen["currentRevision"] == seen["updateRevision"]
        assert seen["updatedReplicas"] == 3
        assert len((await member.client.list(REVISIONS)).items) == 2

    run_in_member(scenario, fleet(pace=SLOW))


def test_partition_keeps_lower_ordinals_at_the_old_revision() -> None:
    async def scenario(member: SimulatedMember) -> None:
        update = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
        await member.client.create(STATEFULSETS, statefulset(replicas=3, spec=update))
        await asyncio.sleep(5)
        await member.client.patch(STATEFULSETS, "default", "db", new_image("app:2"), type="strategic")
        await asyncio.sleep(10)
        images = [pod.spec.containers[0].image for pod in member.pods]
        assert images == ["app:1", "app:1", "app:2"]
        await member.client.delete(Resource("", "v1", "pods", "Pod"), "default", "db-0")
        await asyncio.sleep(10)
        assert [pod.spec.containers[0].image for pod in member.pods] == images

    run_in_member(scenario)


def test_scaling_down_deletes_the_highest_ordinal_and_waits_for_unready_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=4))
        await asyncio.sleep(5)
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": {"replicas": 2}})
        await asyncio.sleep(5)
        assert [pod.name for pod in member.pods] == ["db-0", "db-1"]
        member.kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": {"replicas": 1}})
        await asyncio.sleep(5)
        assert [pod.name for pod in member.pods] == ["db-0", "db-1"]
        member.kubelets.remove_override("broken")
        await asyncio.sleep(5)
        assert [pod.name for pod in member.pods] == ["db-0"]

    run_in_member(scenario)


def test_scaling_to_zero_waits_while_several_pods_are_not_ready() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=3))
        await asyncio.sleep(10)
        member.kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": {"replicas": 0}})
        await asyncio.sleep(10)
        assert [pod.name for pod in member.pods] == ["db-0", "db-1", "db-2"]
        member.kubelets.remove_override("broken")
        await asyncio.sleep(10)
        assert member.pods == []

    run_in_member(scenario)


def test_every_pod_gets_a_claim_that_outlives_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        size = {"requests": {"storage": "1Gi"}}
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}
        await member.client.create(STATEFULSETS, statefulset(replicas=2, spec={"volumeClaimTemplates": [claim]}))
        await asyncio.sleep(5)
        await member.client.patch(STATEFULSETS, "default", "db", {"spec": {"replicas": 1}})
        await asyncio.sleep(5)
        names = [one["metadata"]["name"] for one in (await member.client.list(CLAIMS)).items]
        assert names == ["data-db-0", "data-db-1"]
        assert member.pods[0].spec.volumes[0].persistent_volume_claim is not None

    run_in_member(scenario)


def test_pods_are_replaced_by_the_new_template_only_when_somebody_deletes_them() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(STATEFULSETS, statefulset(replicas=2, spec={"updateStrategy": {"type": "OnDelete"}}))
        await asyncio.sleep(20)
        await member.client.patch(STATEFULSETS, "default", "db", new_image("app:2"))
        await asyncio.sleep(20)
        assert {pod.spec.containers[0].image for pod in member.pods} == {"app:1"}
        await member.client.delete(PODS, "default", "db-0")
        await asyncio.sleep(20)
        assert {pod.name: pod.spec.containers[0].image for pod in member.pods} == {"db-0": "app:2", "db-1": "app:1"}

    run_in_member(scenario)


def test_containers_may_mount_the_volumes_of_claim_templates() -> None:
    async def scenario(member: SimulatedMember) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        made = statefulset(replicas=1, spec={"volumeClaimTemplates": [claim]})
        made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        await member.client.create(STATEFULSETS, made)
        await asyncio.sleep(10)
        assert member.pods[0].is_ready

    run_in_member(scenario)
