import asyncio

from pod_builders import node, pod

from simulate.components.test_volumes import CLAIMS, claim
from simulate.fixtures import (
    DEPLOYMENTS,
    PODS,
    deployment,
    fleet,
    run_in_member,
    run_in_whole_cluster,
    template,
    workload,
)
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scheduling.node_selection import first_fit


def test_first_fit_fills_nodes_in_order() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=5, cpu="1"))
        await asyncio.sleep(5)
        assert sorted(pod.spec.node_name[-1] for pod in member.pods) == ["1", "1", "2", "2", "3"]

    run_in_member(scenario, fleet(cpu="2", scheduler="first-fit"))


def test_first_fit_passes_over_cordoned_and_full_nodes() -> None:
    nodes = [node("a", cordoned=True), node("b", cpu="1"), node("c", pods=1), node("d")]
    snapshot = NodeSnapshot.of(nodes, [pod("old", "c")])
    assert first_fit(build_pod_info(pod("new", cpu="2")), snapshot) == "d"
    assert first_fit(build_pod_info(pod("new", cpu="5")), snapshot) is None


def test_pod_waits_while_its_claim_is_missing_or_being_deleted() -> None:
    async def scheduling_message(member: SimulatedMember, name: str) -> str:
        (condition,) = (await member.client.get(PODS, "default", name))["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        return str(condition["message"])

    async def scenario(member: SimulatedMember) -> None:
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        spec = template("web", volumes=volumes)["spec"]
        await member.client.create(PODS, workload("Pod", "first", spec, "v1"))
        await asyncio.sleep(5)
        missing = '0/3 nodes are available: persistentvolumeclaim "data" not found.'
        assert await scheduling_message(member, "first") == missing
        await member.client.create(CLAIMS, claim("data", "1Gi"))
        await asyncio.sleep(5)
        assert (await member.client.get(PODS, "default", "first"))["spec"]["nodeName"]
        await member.client.delete(CLAIMS, "default", "data")
        await member.client.create(PODS, workload("Pod", "second", spec, "v1"))
        await asyncio.sleep(5)
        deleted = '0/3 nodes are available: persistentvolumeclaim "data" is being deleted.'
        assert await scheduling_message(member, "second") == deleted
        await member.client.delete(PODS, "default", "first", grace_seconds=0)
        await asyncio.sleep(2)
        await member.client.create(CLAIMS, claim("data", "1Gi"))
        await asyncio.sleep(5)
        assert (await member.client.get(PODS, "default", "second"))["spec"]["nodeName"]

    run_in_whole_cluster(scenario)


def test_no_pod_is_evicted_for_one_whose_claim_is_missing() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3, cpu="1"))
        await asyncio.sleep(5)
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        important = template("urgent", cpu="1", volumes=volumes, priorityClassName="system-cluster-critical")["spec"]
        await member.client.create(PODS, workload("Pod", "urgent", important, "v1"))
        await asyncio.sleep(30)
        assert sum(pod.is_ready for pod in member.pods) == 3

    run_in_whole_cluster(scenario, fleet(cpu="1"))
