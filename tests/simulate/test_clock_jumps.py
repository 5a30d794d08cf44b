"""A simulated member after its wall clock was set forward or back, at any moment between two heartbeats."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from fake_clocks import SteppingClock
from simulate.fixtures import CRONJOBS, DEPLOYMENTS, JOBS, NODES, PODS, deployment, fleet, status, template, workload
from trimtab.clock import run_virtually
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.world import World

FORWARD, BACK = timedelta(days=100), timedelta(days=-100)
both_directions = pytest.mark.parametrize("step", [FORWARD, BACK], ids=["forward", "back"])
Scenario = Callable[[SimulatedMember, SteppingClock], Awaitable[Any]]


def run(scenario: Scenario, **more: Any) -> Any:
    async def run_in_world() -> Any:
        clock = SteppingClock()
        world = World(fleet(**more), clock=clock)
        await world.start()
        try:
            return await scenario(next(iter(world)), clock)
        finally:
            await world.stop()

    return run_virtually(run_in_world())


def count_ready(member: SimulatedMember) -> int:
    return sum(pod.is_ready for pod in member.pods)


async def taints(member: SimulatedMember) -> list[Any]:
    return [taint for node in (await member.client.list(NODES)).items for taint in node["spec"].get("taints", ())]


@both_directions
@pytest.mark.parametrize("seconds", [0.0, 2.1, 6.3, 8.4, 36.0, 40.0])
def test_nodes_and_pods_stay_ready_whenever_the_clock_is_set(step: timedelta, seconds: float) -> None:
    """Leases that seem old, while writes of controllers are slow, used to leave pods not ready for ever."""

    async def scenario(member: SimulatedMember, clock: SteppingClock) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=40))
        await asyncio.sleep(30 + seconds)
        uids = {pod.metadata.uid for pod in member.pods}
        not_ready: list[str] = []
        member.cache.table(NODES).add_listener(
            lambda _, new: not_ready.append(new.name[1]) if new is not None and not new.typed.is_ready else None  # type: ignore[attr-defined]
        )
        member._internal.delay, member._kubelet_client.delay = 0.5, 0.1
        clock.offset = step
        await asyncio.sleep(120)
        assert (count_ready(member), {pod.metadata.uid for pod in member.pods}) == (40, uids)
        assert (not_ready, await taints(member)) == ([], [])
        assert (await status(member.client, DEPLOYMENTS, "web"))["readyReplicas"] == 40

    run(scenario)


@both_directions
def test_silent_node_is_found_and_evacuated_after_the_clock_was_set(step: timedelta) -> None:
    async def scenario(member: SimulatedMember, clock: SteppingClock) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(30)
        clock.offset = step
        await asyncio.sleep(30)
        member.kubelets.fail("one-node-1")
        await asyncio.sleep(60)
        assert count_ready(member) == 4
        clock.offset += step  # again, while the pods of the node are tolerated
        await asyncio.sleep(100)
        assert sum(pod.spec.node_name == "one-node-1" for pod in member.pods) == 2
        await asyncio.sleep(250)
        assert count_ready(member) == 6

    run(scenario)


def test_kubelet_repairs_a_pod_status_that_somebody_else_wrote_late() -> None:
    async def scenario(member: SimulatedMember, clock: SteppingClock) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(30)
        conditions = [{"type": "Ready", "status": "False"}]
        for pod in member.pods:
            await member.internal_client.patch(
                PODS, "default", pod.name, {"status": {"conditions": conditions}}, subresource="status"
            )
        await asyncio.sleep(5)
        assert count_ready(member) == 2
        member.kubelets.fail(member.pods[0].spec.node_name)
        await member.internal_client.patch(
            PODS, "default", member.pods[0].name, {"status": {"conditions": conditions}}, subresource="status"
        )
        await asyncio.sleep(5)
        assert count_ready(member) == 1, "the kubelet of a machine that is down reports nothing"

    run(scenario)


@both_directions
def test_rollout_with_min_ready_seconds_goes_on_after_the_clock_was_set(step: timedelta) -> None:
    async def scenario(member: SimulatedMember, clock: SteppingClock) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3, spec={"minReadySeconds": 20}))
        await asyncio.sleep(10)
        clock.offset = step
        await asyncio.sleep(90)
        assert (await status(member.client, DEPLOYMENTS, "web"))["availableReplicas"] == 3
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(60)
        assert (await status(member.client, DEPLOYMENTS, "web"))["availableReplicas"] == 5
        started = [pod.status.start_time for pod in member.pods if pod.status.start_time is not None]
        assert clock.now() - max(started) < timedelta(minutes=2), "a new pod starts at the new time"

    run(scenario)


@both_directions
def test_cron_job_runs_on_and_makes_up_for_one_run_at_most(step: timedelta) -> None:
    async def scenario(member: SimulatedMember, clock: SteppingClock) -> None:
        spec = {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": template("tick", restartPolicy="Never")}},
        }
        await member.client.create(CRONJOBS, workload("CronJob", "tick", spec, "batch/v1"))
        created: set[str] = set()
        member.cache.table(JOBS).add_listener(lambda _, new: created.add(new.name[1]) if new is not None else None)
        await asyncio.sleep(620)
        assert len(created) == 2
        clock.offset = step
        await asyncio.sleep(40)
        assert len(created) in (2, 3)
        before = len(created)
        await asyncio.sleep(600)
        assert len(created) == before + 2

    run(scenario)
