import asyncio

from simulate.scenery import (
    BUDGETS,
    CLASSES,
    DEPLOYMENTS,
    NODES,
    condition,
    deployment,
    fleet,
    in_a_member,
    status,
    workload,
)
from trimtab.simulate.member import Member


def test_pods_spread_over_the_nodes() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        per_node = [sum(pod.spec.node_name == node for pod in member.pods) for node in member.kubelets.machines]
        assert per_node == [2, 2, 2]

    in_a_member(story)


def test_the_first_fit_binder_fills_one_node_after_the_other() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=5, cpu="1"))
        await asyncio.sleep(5)
        assert sorted(pod.spec.node_name[-1] for pod in member.pods) == ["1", "1", "2", "2", "3"]

    in_a_member(story, fleet(cpu="2", binder="first-fit"))


def test_a_pod_without_a_node_says_why_and_goes_as_soon_as_there_is_room() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=4, cpu="1"))
        await asyncio.sleep(5)
        (waiting,) = [pod for pod in member.pods if not pod.spec.node_name]
        (said,) = [one for one in waiting.status.conditions if one.type == "PodScheduled"]
        assert said.status == "False"
        assert said.reason == "Unschedulable"
        assert said.message == "0/3 nodes are available: 3 Insufficient cpu."
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 3}})
        await asyncio.sleep(5)
        assert len(member.pods) == 3
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("other", 0))
        bigger = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        member.kubelets.machines["one-node-2"].room["cpu"] = 4000
        await member.client.patch(NODES, "", "one-node-2", bigger, subresource="status")
        await asyncio.sleep(5)
        assert all(pod.ready for pod in member.pods)

    in_a_member(story, fleet(cpu="1"))


def test_an_important_pod_takes_the_place_of_a_lesser_one() -> None:
    async def story(member: Member) -> None:
        await member.client.create(
            CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        await member.client.create(DEPLOYMENTS, deployment("low", 3, cpu="1"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 1, cpu="1", priorityClassName="high"))
        await asyncio.sleep(10)
        assert (await status(member.client, DEPLOYMENTS, "high"))["readyReplicas"] == 1
        assert (await status(member.client, DEPLOYMENTS, "low"))["readyReplicas"] == 2

    in_a_member(story, fleet(cpu="1"))


def test_a_budget_protects_pods_from_being_preempted() -> None:
    async def story(member: Member) -> None:
        await member.client.create(
            CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
        )
        await member.client.create(DEPLOYMENTS, deployment("low", 3, cpu="1"))
        body = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "low"}}}
        await member.client.create(BUDGETS, workload("PodDisruptionBudget", "low", body, "policy/v1"))
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("high", 1, cpu="1", priorityClassName="high"))
        await asyncio.sleep(30)
        assert (await status(member.client, DEPLOYMENTS, "low"))["readyReplicas"] == 3
        assert condition(await status(member.client, DEPLOYMENTS, "high"), "Available")["status"] == "False"

    in_a_member(story, fleet(cpu="1"))
