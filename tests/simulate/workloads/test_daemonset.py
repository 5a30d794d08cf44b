import asyncio
from typing import Any

from simulate.fixtures import DAEMONSETS, NODES, fleet, new_image, run_in_member, status, template, workload
from trimtab.api.value import Raw
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import SimulatedMember


def daemonset(**more: Any) -> Raw:
    body = {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent"), **more}
    return workload("DaemonSet", "agent", body)


def test_every_node_gets_exactly_one_pod() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DAEMONSETS, daemonset())
        await asyncio.sleep(5)
        assert sorted(pod.spec.node_name for pod in member.pods) == ["one-node-1", "one-node-2", "one-node-3"]
        seen = await status(member.client, DAEMONSETS, "agent")
        assert seen["numberReady"] == seen["desiredNumberScheduled"] == seen["numberAvailable"] == 3

    run_in_member(scenario)


def test_daemon_pod_is_deleted_from_a_node_with_an_untolerated_taint() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DAEMONSETS, daemonset())
        await asyncio.sleep(5)
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        await member.client.patch(NODES, "", "one-node-2", {"spec": {"taints": [taint]}})
        await asyncio.sleep(5)
        assert sorted(pod.spec.node_name for pod in member.pods) == ["one-node-1", "one-node-3"]

    run_in_member(scenario)


def test_rolling_update_replaces_one_node_at_a_time() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DAEMONSETS, daemonset())
        await asyncio.sleep(10)
        await member.client.patch(DAEMONSETS, "default", "agent", new_image("app:2"), type="strategic")
        for _ in range(200):
            await asyncio.sleep(0.1)
            assert sum(pod.is_ready for pod in member.pods) >= 2
        assert {pod.spec.containers[0].image for pod in member.pods} == {"app:2"}
        assert (await status(member.client, DAEMONSETS, "agent"))["updatedNumberScheduled"] == 3

    run_in_member(scenario, fleet(pace=Pace(start=1, ready=1, stop=1)))


def test_surge_starts_the_replacement_before_the_old_pod_is_deleted() -> None:
    async def scenario(member: SimulatedMember) -> None:
        rolling = {"maxSurge": 1, "maxUnavailable": 0}
        await member.client.create(DAEMONSETS, daemonset(updateStrategy={"rollingUpdate": rolling}, minReadySeconds=2))
        await asyncio.sleep(10)
        await member.client.patch(DAEMONSETS, "default", "agent", new_image("app:2"), type="strategic")
        most = 0
        for _ in range(200):
            await asyncio.sleep(0.1)
            ready = {pod.spec.node_name for pod in member.pods if pod.is_ready and not pod.metadata.deletion_timestamp}
            assert len(ready) == 3
            most = max(most, sum(pod.metadata.deletion_timestamp is None for pod in member.pods))
        assert most == 4
        assert [pod.spec.containers[0].image for pod in member.pods] == ["app:2"] * 3
        assert (await status(member.client, DAEMONSETS, "agent"))["updatedNumberScheduled"] == 3

    run_in_member(scenario, fleet(pace=Pace(start=1, ready=1, stop=1)))


def test_surge_replaces_pods_that_are_not_ready_at_once() -> None:
    async def scenario(member: SimulatedMember) -> None:
        rolling = {"maxSurge": 1, "maxUnavailable": 0}
        broken = daemonset(updateStrategy={"rollingUpdate": rolling})
        broken["spec"]["template"]["spec"]["containers"][0]["image"] = "fake/app:1"
        await member.client.create(DAEMONSETS, broken)
        await asyncio.sleep(10)
        await member.client.patch(DAEMONSETS, "default", "agent", new_image("app:2"), type="strategic")
        await asyncio.sleep(3)
        assert [(pod.spec.containers[0].image, pod.is_ready) for pod in member.pods] == [("app:2", True)] * 3

    run_in_member(scenario)
