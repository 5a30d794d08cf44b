import asyncio
from typing import Any, cast

import pytest

from simulate.fixtures import (
    BUDGETS,
    DAEMONSETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    deployment,
    fleet,
    run_in_member,
    template,
    workload,
)
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock
from trimtab.errors import InputError
from trimtab.rescheduling.drain import DrainOptions, DrainStep, NodeDrain
from trimtab.simulate.member import SimulatedMember

OURS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
SELECTOR = {"matchLabels": {"app": "web"}}


def drain(member: SimulatedMember, node: str, steps: list[DrainStep], **options: Any) -> NodeDrain:
    return NodeDrain(member.client, node, clock=LoopClock(), options=DrainOptions(**options), report=steps.append)


def pdb(**spec: Any) -> dict[str, Any]:
    return workload("PodDisruptionBudget", "web", {"selector": SELECTOR, **spec}, "policy/v1")


def budget(**spec: Any) -> dict[str, Any]:
    return workload("DisruptionBudget", "web", {"target": "Pods", "selector": SELECTOR, **spec}, "trimtab.dev/v1alpha1")


def pods_on(member: SimulatedMember, node: str) -> list[str]:
    return [pod.name for pod in member.pods if pod.spec.node_name == node and not pod.is_terminal]


def test_a_drain_respects_the_budget_and_empties_the_node() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await member.client.create(BUDGETS, pdb(maxUnavailable=1))
        await asyncio.sleep(5)
        fewest = 6

        async def watch() -> None:
            nonlocal fewest
            while True:
                fewest = min(fewest, sum(pod.is_ready and not pod.metadata.deletion_timestamp for pod in member.pods))
                await asyncio.sleep(0.1)

        watching = asyncio.get_running_loop().create_task(watch())
        told: list[DrainStep] = []
        steps = await drain(member, "one-node-1", told).run()
        watching.cancel()
        assert {step.state for step in steps} == {"Gone"}
        assert pods_on(member, "one-node-1") == []
        assert fewest >= 5
        assert any("web needs 5 healthy pods" in step.message for step in told if step.state == "Blocked")

    run_in_member(story)


def test_a_drain_reports_until_when_a_rate_blocks_it() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await member.client.create(OURS, budget(rate={"disruptions": 1, "period": "30m"}))
        await asyncio.sleep(5)
        steps: list[DrainStep] = []
        before = LoopClock().now()
        await drain(member, "one-node-1", steps).run()
        blocked = [step for step in steps if step.state == "Blocked" and step.until is not None]
        assert blocked
        assert 1790 < (blocked[0].until - before).total_seconds() < 1810
        assert 1790 < (LoopClock().now() - before).total_seconds() < 1900
        node = await member.client.get(NODES, "", "one-node-1")
        (condition,) = [one for one in node["status"]["conditions"] if one["type"] == "DrainBlocked"]
        assert (condition["status"], condition["reason"]) == ("False", "Drained")

    run_in_member(story)


def test_the_node_condition_names_blocking_pods_and_the_abandoned_drain() -> None:
    async def story(member: SimulatedMember) -> None:
        for name in ("one", "two"):
            await member.client.create(DEPLOYMENTS, deployment(name, replicas=3))
            body = {"selector": {"matchLabels": {"app": name}}, "minAvailable": 3}
            await member.client.create(BUDGETS, workload("PodDisruptionBudget", name, body, "policy/v1"))
        await asyncio.sleep(5)
        running = asyncio.ensure_future(drain(member, "one-node-1", [], timeout=1500.0).run())
        await asyncio.sleep(1000)
        said = await blocked(member, "one-node-1")
        assert (said["status"], said["reason"]) == ("True", "BlockedByBudget")
        assert "one needs 3 healthy pods and has 3" in said["message"]
        assert "two needs 3 healthy pods and has 3" in said["message"]
        await running
        said = await blocked(member, "one-node-1")
        assert (said["status"], said["reason"]) == ("False", "DrainAbandoned")
        assert "two needs 3 healthy pods and has 3" in said["message"]

    run_in_member(story)


async def blocked(member: SimulatedMember, name: str) -> Raw:
    node = await member.client.get(NODES, "", name)
    return next(one for one in node["status"]["conditions"] if one["type"] == "DrainBlocked")


def test_a_blocked_drain_names_the_budget_and_its_numbers() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await member.client.create(BUDGETS, pdb(minAvailable=1))
        await asyncio.sleep(5)
        (pod,) = member.pods
        steps: list[DrainStep] = []
        (step,) = await drain(member, pod.spec.node_name, steps, timeout=60.0).run()
        assert step.state == "Failed"
        assert "web needs 1 healthy pods and has 1 currently" in step.message

    run_in_member(story)


def test_with_surge_the_replacement_of_a_single_pod_is_ready_first() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await member.client.create(OURS, budget(minAvailable=1, surge="Allowed"))
        await asyncio.sleep(5)
        (pod,) = member.pods
        steps: list[DrainStep] = []
        (step,) = await drain(member, pod.spec.node_name, steps).run()
        assert step.state == "Gone"
        assert "Surging" in [one.state for one in steps]
        await asyncio.sleep(60)
        (left,) = member.pods
        assert left.is_ready
        assert left.spec.node_name != pod.spec.node_name
        assert (await member.client.get(DEPLOYMENTS, "default", "web"))["spec"]["replicas"] == 1

    run_in_member(story)


@pytest.mark.parametrize("away_at", [2.0, 5.5])
def test_a_surge_replica_is_removed_although_the_api_server_was_unavailable(away_at: float) -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await member.client.create(OURS, budget(minAvailable=2, surge="Allowed"))
        await asyncio.sleep(5)
        running = asyncio.ensure_future(drain(member, member.pods[0].spec.node_name, []).run())
        await asyncio.sleep(away_at)
        member.stop_api()
        await asyncio.sleep(40)
        member.start_api()
        steps = await running
        assert {step.state for step in steps} == {"Gone"}
        made = await member.client.get(DEPLOYMENTS, "default", "web")
        assert made["spec"]["replicas"] == 2
        assert "trimtab.dev/drain-surge-replicas" not in made["metadata"].get("annotations", {})

    run_in_member(story)


class LossyClient:
    """A client that loses the responses of some writes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, resource: Resource, *args: Any, **more: Any) -> Raw:
        answer = await self._client.patch(resource, *args, **more)
        if resource == DEPLOYMENTS:
            self.writes += 1
            if self.writes in (1, 4):  # of the first addition, and of the last removal
                raise ConnectionResetError("the answer was lost")
        return answer


def test_a_surge_adds_and_removes_one_replica_although_responses_are_lost() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await member.client.create(OURS, budget(minAvailable=2, surge="Allowed"))
        await asyncio.sleep(5)
        deaf = LossyClient(member.client)
        running = NodeDrain(cast("Client", deaf), member.pods[0].spec.node_name, clock=LoopClock()).run()
        assert {step.state for step in await running} == {"Gone"}
        assert deaf.writes == 4
        made = await member.client.get(DEPLOYMENTS, "default", "web")
        assert made["spec"]["replicas"] == 2
        assert "trimtab.dev/drain-surge-replicas" not in made["metadata"].get("annotations", {})

    run_in_member(story)


def test_a_surge_ends_with_the_drain_timeout() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        await member.client.create(OURS, budget(minAvailable=2, surge="Allowed"))
        await asyncio.sleep(5)
        before = LoopClock().now()
        (step,) = await drain(member, member.pods[0].spec.node_name, [], timeout=20.0).run()
        assert step.state == "Failed"
        assert (LoopClock().now() - before).total_seconds() < 30
        assert (await member.client.get(DEPLOYMENTS, "default", "web"))["spec"]["replicas"] == 1

    run_in_member(story)


def test_unreplaceable_pods_are_evicted_only_with_force() -> None:
    async def story(member: SimulatedMember) -> None:
        bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "default"}}
        await member.client.create(PODS, {**bare, "spec": template("bare")["spec"]})
        daemon = {"selector": {"matchLabels": {"app": "daemon"}}, "template": template("daemon")}
        await member.client.create(DAEMONSETS, workload("DaemonSet", "daemon", daemon))
        await asyncio.sleep(5)
        node = next(pod.spec.node_name for pod in member.pods if pod.name == "bare")
        with pytest.raises(InputError, match="no controller would replace it"):
            await drain(member, node, [], ignore_daemonsets=True).run()
        with pytest.raises(InputError, match="DaemonSet"):
            await drain(member, node, [], force=True).run()
        steps = await drain(member, node, [], ignore_daemonsets=True, force=True).run()
        assert sorted(step.state for step in steps) == ["Exempt", "Gone"]

    run_in_member(story, fleet(nodes=2))


def test_a_dry_run_does_not_cordon_and_reports_evictable_and_blocked_pods() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await member.client.create(DEPLOYMENTS, deployment("free", replicas=3))
        await member.client.create(BUDGETS, pdb(maxUnavailable=0))
        await asyncio.sleep(5)
        before = {pod.metadata.uid for pod in member.pods}
        steps = await drain(member, "one-node-1", [], dry_run=True).run()
        found = {step.pod.split("/")[1].split("-")[0]: step for step in steps}
        assert (found["web"].state, found["free"].state) == ("Blocked", "Free")
        assert "web needs 3 healthy pods and has 3 currently" in found["web"].message
        await asyncio.sleep(30)
        assert {pod.metadata.uid for pod in member.pods} == before
        assert "unschedulable" not in (await member.client.get(NODES, "", "one-node-1"))["spec"]

    run_in_member(story)


def test_a_drain_survives_an_unavailable_api_server() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await member.client.create(BUDGETS, pdb(maxUnavailable=1))
        await asyncio.sleep(5)
        steps: list[DrainStep] = []
        draining = asyncio.ensure_future(drain(member, "one-node-1", steps).run())
        await asyncio.sleep(0.5)
        member.stop_api()
        await asyncio.sleep(30)
        member.start_api()
        assert {step.state for step in await draining} == {"Gone"}
        assert any("cannot be reached" in step.message for step in steps)
        assert pods_on(member, "one-node-1") == []

    run_in_member(story)


def test_a_pod_bound_before_the_scheduler_saw_the_cordon_is_evicted_too() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(5)
        draining = asyncio.ensure_future(drain(member, "one-node-1", [], force=True).run())
        await asyncio.sleep(0.5)
        late = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": "default"}}
        await member.client.create(PODS, {**late, "spec": {**template("late")["spec"], "nodeName": "one-node-1"}})
        assert "default/late" in {step.pod for step in await draining}
        assert pods_on(member, "one-node-1") == []

    run_in_member(story)


def test_a_blocked_pod_does_not_block_others() -> None:
    async def story(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await member.client.create(DEPLOYMENTS, deployment("zebra", replicas=3))
        await member.client.create(BUDGETS, pdb(maxUnavailable=0))
        await asyncio.sleep(5)
        steps = await drain(member, "one-node-1", [], parallel=1, timeout=60.0).run()
        assert {step.pod.split("/")[1].split("-")[0]: step.state for step in steps} == {
            "web": "Failed",
            "zebra": "Gone",
        }

    run_in_member(story)


def test_a_surge_replica_does_not_raise_the_budget_requirement() -> None:
    async def story(member: SimulatedMember) -> None:
        made = deployment(replicas=3)
        made["metadata"]["annotations"] = {"trimtab.dev/drain-surge": "Allowed"}
        await member.client.create(DEPLOYMENTS, made)
        await member.client.create(BUDGETS, pdb(maxUnavailable=0))
        await asyncio.sleep(5)
        assert {step.state for step in await drain(member, "one-node-1", [], timeout=600.0).run()} == {"Gone"}
        after = await member.client.get(DEPLOYMENTS, "default", "web")
        assert after["spec"]["replicas"] == 3
        assert "trimtab.dev/drain-surge-replicas" not in after["metadata"]["annotations"]

    run_in_member(story)
