import asyncio

from pod_builders import node, pod

from simulate.fixtures import DEPLOYMENTS, deployment, fleet, run_in_member
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
