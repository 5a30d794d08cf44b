import asyncio

from simulate.fixtures import (
    BUDGETS,
    CLASSES,
    DEPLOYMENTS,
    NODES,
    PODS,
    condition,
    deployment,
    fleet,
    in_a_member,
    status,
    template,
    workload,
)
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.client.client import Resource
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


def test_who_waits_longer_goes_first_among_equals_however_often_they_are_tried() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment("full", 1, cpu="1"))
        await asyncio.sleep(5)
        for name in ("zebra", "ape"):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1"))
            await asyncio.sleep(5)
        await member.client.patch(DEPLOYMENTS, "default", "full", {"spec": {"replicas": 0}})
        await asyncio.sleep(10)
        assert [pod.metadata.labels["app"] for pod in member.pods if pod.ready] == ["zebra"]

    in_a_member(story, fleet(nodes=1, cpu="1"))


def test_room_that_another_scheduler_took_in_between_is_not_given_twice() -> None:
    async def story(member: Member) -> None:
        binder = member.binder
        held = binder._client.submit
        stolen: list[str] = []

        async def submit(resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
            if subresource == "binding" and not stolen:
                stolen.append(name)
                await member.client.create(PODS, other | {"metadata": {"name": "other", "namespace": "default"}})
                body = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": obj["target"]["name"]}}
                await held(resource, namespace, "other", "binding", body)
            return await held(resource, namespace, name, subresource, obj)

        binder._client.submit = submit
        other = {"apiVersion": "v1", "kind": "Pod", "spec": template("other", cpu="1", schedulerName="another")["spec"]}
        await member.client.create(DEPLOYMENTS, deployment("web", 1, cpu="1"))
        await asyncio.sleep(10)
        places = {pod.name[:5]: pod.spec.node_name for pod in member.pods}
        assert sorted(places.values()) == ["one-node-1", "one-node-2"]
        assert all(pod.ready for pod in member.pods)

    in_a_member(story, fleet(nodes=2, cpu="1"))


def of(member: Member, app: str) -> Pod:
    """The one pod of this application that stays."""
    (found,) = [
        pod for pod in member.pods if pod.metadata.labels["app"] == app and pod.metadata.deletion_timestamp is None
    ]
    return found


async def expected(member: Member) -> Pod:
    """Two nodes; what runs on the first is soon to go to the second, which others would like just as much."""
    await member.cordon("one-node-2")
    await member.client.create(DEPLOYMENTS, deployment("web", 1, cpu="3"))
    await asyncio.sleep(5)
    await member.cordon("one-node-2", closed=False)
    pod = of(member, "web")
    assert pod.spec.node_name == "one-node-1"
    member.binder.keep(pod, "one-node-2")
    await member.client.create(DEPLOYMENTS, deployment("other", 1, cpu="3"))
    await asyncio.sleep(5)
    assert of(member, "other").spec.node_name == ""  # the room is kept
    return pod


def test_room_is_kept_for_a_replacement_until_it_comes_and_its_promise_is_written_on_it() -> None:
    async def story(member: Member) -> None:
        pod = await expected(member)
        await member.client.delete(PODS, "default", pod.name)
        await asyncio.sleep(10)
        heir = of(member, "web")
        assert (heir.spec.node_name, heir.status.nominated_node_name) == ("one-node-2", "one-node-2")
        assert of(member, "other").spec.node_name == "one-node-1"

    in_a_member(story, fleet(nodes=2, cpu="4"))


def test_room_that_was_kept_for_a_pod_that_stays_is_given_back() -> None:
    async def story(member: Member) -> None:
        pod = await expected(member)
        member.binder.let_go(pod)
        await asyncio.sleep(10)
        assert of(member, "other").spec.node_name == "one-node-2"

    in_a_member(story, fleet(nodes=2, cpu="4"))


def test_room_is_not_kept_for_ever() -> None:
    async def story(member: Member) -> None:
        await expected(member)
        await asyncio.sleep(60)
        assert of(member, "other").spec.node_name == ""
        await asyncio.sleep(60)
        assert of(member, "other").spec.node_name == "one-node-2"

    in_a_member(story, fleet(nodes=2, cpu="4"))


def test_a_replacement_whose_place_will_not_do_any_more_goes_elsewhere() -> None:
    async def story(member: Member) -> None:
        pod = await expected(member)
        await member.cordon("one-node-2")
        await member.client.delete(DEPLOYMENTS, "default", "other")
        await member.client.delete(PODS, "default", pod.name)
        await asyncio.sleep(10)
        assert of(member, "web").spec.node_name == "one-node-1"

    in_a_member(story, fleet(nodes=2, cpu="4"))
