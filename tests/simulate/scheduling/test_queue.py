import asyncio
from collections.abc import Callable

from pod_builders import pod

from simulate.fixtures import DEPLOYMENTS, deployment, fleet, run_in_member
from trimtab.api.kinds.native.pod import Pod, PodCondition
from trimtab.clock import LoopClock, run_virtually
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scheduling.queue import BOOST_SECONDS, RETRY_SECONDS, SchedulingQueue


def test_retried_pods_keep_their_queue_order_among_equal_priorities() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("full", 1, cpu="1"))
        await asyncio.sleep(5)
        for name in ("zebra", "ape"):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1"))
            await asyncio.sleep(5)
        await member.client.patch(DEPLOYMENTS, "default", "full", {"spec": {"replicas": 0}})
        await asyncio.sleep(10)
        assert [pod.metadata.labels["app"] for pod in member.pods if pod.is_ready] == ["zebra"]

    run_in_member(scenario, fleet(nodes=1, cpu="1"))


def queue_of(*pods: Pod) -> tuple[SchedulingQueue, dict[tuple[str, str], Pod]]:
    pending = {(one.namespace, one.name): one for one in pods}
    queue = SchedulingQueue(lambda one: one.spec.priority or 0, pending.get)
    for name, one in pending.items():
        queue.add(name, one)
    return queue, pending


def names(queue: SchedulingQueue) -> list[str]:
    taken = []
    while (one := queue.pop()) is not None:
        taken.append(one.name)
    return taken


def run(scenario: Callable[[], object]) -> None:
    async def in_loop() -> None:
        scenario()

    run_virtually(in_loop())


def test_pods_are_taken_by_priority_and_then_by_arrival() -> None:
    def scenario() -> None:
        queue, _ = queue_of(pod("b"), pod("a"), pod("c", priority=5))
        assert names(queue) == ["c", "b", "a"]
        assert queue.is_empty

    run(scenario)


def test_pod_that_needs_no_node_any_more_is_passed_over() -> None:
    def scenario() -> None:
        queue, pending = queue_of(pod("a"), pod("b"))
        del pending["default", "a"]
        assert names(queue) == ["b"]

    run(scenario)


def test_unschedulable_pod_waits_for_the_retry() -> None:
    async def scenario() -> None:
        queue, pending = queue_of(pod("a"))
        assert names(queue) == ["a"]
        queue.add_unschedulable(("default", "a"))
        queue.add(("default", "a"), pending["default", "a"])
        assert queue.is_empty
        queue.retry_soon()
        await asyncio.sleep(RETRY_SECONDS + 0.1)
        assert names(queue) == ["a"]

    run_virtually(scenario())


def test_replacement_of_a_pod_that_the_rescheduler_moved_goes_first_for_some_time() -> None:
    async def scenario() -> None:
        before = pod("old", owner="ReplicaSet/moved")
        condition = PodCondition(type="DisruptionTarget", status="True", message="moved (rescheduler)")
        after = before.but(
            metadata=before.metadata.but(deletion_timestamp=LoopClock().now()),
            status=before.status.but(conditions=(condition,)),
        )
        queue, pending = queue_of(pod("high", priority=5))
        queue.boost_replacement(before, after)
        pending["default", "new"] = pod("new", owner="ReplicaSet/moved")
        queue.add(("default", "new"), pending["default", "new"])
        assert names(queue) == ["new", "high"]
        await asyncio.sleep(BOOST_SECONDS + 1)
        for name, one in pending.items():
            queue.add(name, one)
        assert names(queue) == ["high", "new"]

    run_virtually(scenario())
