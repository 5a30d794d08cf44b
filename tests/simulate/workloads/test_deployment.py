import asyncio

from simulate.fixtures import (
    DEPLOYMENTS,
    REPLICASETS,
    condition,
    deployment,
    exists,
    fleet,
    new_image,
    run_in_member,
    status,
    without_times,
)
from trimtab.simulate.fleet import Pace
from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride
from trimtab.simulate.member import SimulatedMember


def test_deployment_status_is_as_kubernetes_writes_it() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(2)
        (replicaset,) = (await member.client.list(REPLICASETS)).items
        made = await member.client.get(DEPLOYMENTS, "default", "web")
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
        assert without_times(made["status"]) == {
            "observedGeneration": 1,
            "replicas": 2,
            "updatedReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
            "terminatingReplicas": 0,
            "conditions": [
                {
                    "type": "Available",
                    "status": "True",
                    "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                },
                {
                    "type": "Progressing",
                    "status": "True",
                    "reason": "NewReplicaSetAvailable",
                    "message": f'ReplicaSet "{replicaset["metadata"]["name"]}" has successfully progressed.',
                },
            ],
        }
        assert [pod.is_ready for pod in member.pods] == [True, True]

    run_in_member(scenario)


def test_rollout_respects_max_surge_and_max_unavailable() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=8))
        await asyncio.sleep(60)
        await member.client.patch(DEPLOYMENTS, "default", "web", new_image("app:2"), type="strategic")
        fewest, most = 8, 0
        for _ in range(600):
            await asyncio.sleep(0.1)
            seen = await status(member.client, DEPLOYMENTS, "web")
            fewest = min(fewest, seen.get("availableReplicas", 0))
            most = max(most, seen.get("replicas", 0))
        assert (fewest, most) == (6, 10)
        images = {pod.spec.containers[0].image for pod in member.pods}
        assert images == {"app:2"}
        made = await member.client.get(DEPLOYMENTS, "default", "web")
        assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        assert len((await member.client.list(REPLICASETS)).items) == 2

    run_in_member(scenario, fleet(pace=Pace(start=2, ready=1, stop=1)))


def test_rollback_gives_the_old_template_a_new_revision() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment())
        for image in ("app:2", "app:1"):
            await asyncio.sleep(5)
            await member.client.patch(DEPLOYMENTS, "default", "web", new_image(image), type="strategic")
        await asyncio.sleep(5)
        made = await member.client.get(DEPLOYMENTS, "default", "web")
        assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        sizes = sorted(one["spec"]["replicas"] for one in (await member.client.list(REPLICASETS)).items)
        assert sizes == [0, 3]

    run_in_member(scenario)


def test_scaling_creates_no_replicaset() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        for wanted in (7, 1, 0, 3):
            await asyncio.sleep(5)
            await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": wanted}})
            await asyncio.sleep(5)
            assert len(member.pods) == wanted
            assert (await status(member.client, DEPLOYMENTS, "web")).get("replicas", 0) == wanted
        assert len((await member.client.list(REPLICASETS)).items) == 1

    run_in_member(scenario)


def test_scaling_during_a_rollout_scales_replicasets_proportionally() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=10))
        await asyncio.sleep(2)
        member.kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await member.client.patch(DEPLOYMENTS, "default", "web", new_image("app:2"), type="strategic")
        await asyncio.sleep(5)
        before = sorted(one["spec"]["replicas"] for one in (await member.client.list(REPLICASETS)).items)
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 20}})
        await asyncio.sleep(5)
        after = sorted(one["spec"]["replicas"] for one in (await member.client.list(REPLICASETS)).items)
        assert sum(before) == 13
        assert sum(after) == 25
        assert all(new > old for new, old in zip(after, before, strict=True))

    run_in_member(scenario)


def test_recreate_never_runs_two_versions_at_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(spec={"strategy": {"type": "Recreate"}}))
        await asyncio.sleep(10)
        await member.client.patch(DEPLOYMENTS, "default", "web", new_image("app:2"), type="strategic")
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert len({pod.spec.containers[0].image for pod in member.pods}) <= 1
        assert {pod.spec.containers[0].image for pod in member.pods} == {"app:2"}
        assert len(member.pods) == 3

    run_in_member(scenario, fleet(pace=Pace(start=1, stop=1)))


def test_rollout_without_progress_exceeds_its_deadline() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
        await member.client.create(DEPLOYMENTS, deployment(spec={"progressDeadlineSeconds": 60}))
        await asyncio.sleep(50)
        assert condition(await status(member.client, DEPLOYMENTS, "web"), "Progressing")["status"] == "True"
        await asyncio.sleep(20)
        late = condition(await status(member.client, DEPLOYMENTS, "web"), "Progressing")
        assert (late["status"], late["reason"]) == ("False", "ProgressDeadlineExceeded")
        member.kubelets.remove_override("broken")
        await asyncio.sleep(5)
        done = condition(await status(member.client, DEPLOYMENTS, "web"), "Progressing")
        assert (done["status"], done["reason"]) == ("True", "NewReplicaSetAvailable")

    run_in_member(scenario)


def test_pod_is_available_only_after_min_ready_seconds() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2, spec={"minReadySeconds": 30}))
        await asyncio.sleep(10)
        seen = await status(member.client, DEPLOYMENTS, "web")
        assert (seen["readyReplicas"], seen.get("availableReplicas", 0)) == (2, 0)
        await asyncio.sleep(25)
        assert (await status(member.client, DEPLOYMENTS, "web"))["availableReplicas"] == 2

    run_in_member(scenario)


def test_deleting_a_deployment_deletes_its_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment())
        await asyncio.sleep(5)
        await member.client.delete(DEPLOYMENTS, "default", "web")
        await asyncio.sleep(10)
        assert not await exists(member.client, DEPLOYMENTS, "web")
        assert not (await member.client.list(REPLICASETS)).items
        assert not member.pods

    run_in_member(scenario)


def test_old_replicasets_beyond_the_history_limit_are_deleted() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(spec={"revisionHistoryLimit": 2}))
        for version in range(2, 8):
            await asyncio.sleep(5)
            await member.client.patch(DEPLOYMENTS, "default", "web", new_image(f"app:{version}"), type="strategic")
        await asyncio.sleep(5)
        assert len((await member.client.list(REPLICASETS)).items) == 3

    run_in_member(scenario)
