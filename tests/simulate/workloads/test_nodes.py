import asyncio

from simulate.fixtures import DEPLOYMENTS, NODES, PODS, condition, deployment, run_in_member
from trimtab.simulate.member import SimulatedMember


def test_pods_of_a_failed_node_are_replaced_on_other_nodes() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        dead = member.pods[0].spec.node_name
        member.kubelets.fail(dead)
        await asyncio.sleep(60)
        node = await member.client.get(NODES, "", dead)
        assert condition(node["status"], "Ready")["status"] == "Unknown"
        assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        assert sum(pod.is_ready for pod in member.pods) < 3
        await asyncio.sleep(310)
        ready = [pod for pod in member.pods if pod.is_ready]
        assert len(ready) == 3
        assert dead not in {pod.spec.node_name for pod in ready}
        await member.kubelets.recover(dead)
        await asyncio.sleep(10)
        assert len(member.pods) == 3
        assert not (await member.client.get(NODES, "", dead))["spec"].get("taints")

    run_in_member(scenario)


def test_node_that_recovers_within_the_toleration_keeps_its_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        names = {pod.name for pod in member.pods}
        node = member.pods[0].spec.node_name
        member.kubelets.fail(node)
        await asyncio.sleep(120)
        await member.kubelets.recover(node)
        await asyncio.sleep(400)
        assert {pod.name for pod in member.pods if pod.is_ready} == names

    run_in_member(scenario)


def test_node_under_memory_pressure_gets_no_new_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.kubelets.set_pressure("one-node-1", "memory")
        await asyncio.sleep(1)
        await member.client.create(DEPLOYMENTS, deployment(replicas=4))
        await asyncio.sleep(5)
        assert {pod.spec.node_name for pod in member.pods} == {"one-node-2", "one-node-3"}
        await member.kubelets.set_pressure("one-node-1", "memory", on=False)
        await asyncio.sleep(1)
        assert not (await member.client.get(NODES, "", "one-node-1"))["spec"].get("taints")

    run_in_member(scenario)


def test_toleration_seconds_count_from_when_the_pod_met_the_taint() -> None:
    async def scenario(member: SimulatedMember) -> None:
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await member.client.patch(NODES, "", "one-node-1", {"spec": {"taints": [taint]}})
        await asyncio.sleep(600)
        toleration = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}
        spec = {"containers": [{"name": "c", "image": "app:1"}], "nodeName": "one-node-1", "tolerations": [toleration]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": "default"}, "spec": spec}
        await member.client.create(PODS, pod)
        await asyncio.sleep(90)
        assert [one.name for one in member.pods] == ["late"]
        await asyncio.sleep(60)
        assert member.pods == []

    run_in_member(scenario)


def test_node_whose_kubelet_never_reports_gets_unknown_conditions() -> None:
    async def scenario(member: SimulatedMember) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "empty"}}
        await member.client.create(NODES, node)
        await asyncio.sleep(50)
        assert not (await member.client.get(NODES, "", "empty")).get("status", {}).get("conditions")
        await asyncio.sleep(30)
        ready = condition((await member.client.get(NODES, "", "empty"))["status"], "Ready")
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusNeverUpdated")

    run_in_member(scenario)


def test_no_pod_is_evicted_while_no_node_is_ready() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(30)
        before = sorted(pod.name for pod in member.pods)
        names = [node["metadata"]["name"] for node in (await member.client.list(NODES)).items]
        for name in names:
            member.kubelets.fail(name)
        await asyncio.sleep(900)
        assert sorted(pod.name for pod in member.pods) == before
        for node in (await member.client.list(NODES)).items:
            assert [taint["effect"] for taint in node["spec"]["taints"]] == ["NoSchedule"]
        await member.kubelets.recover(names[0])
        await asyncio.sleep(900)
        assert not set(before).intersection(
            pod.name
            for pod in member.pods
            if pod.metadata.deletion_timestamp is None and pod.spec.node_name != names[0]
        )

    run_in_member(scenario)
