"""The status of a Cluster reports the APIs and the node capacity of a real member."""

from typing import Any

from kube.fleet import CLUSTERS, RealFleet, all_ready, wait_until

from trimtab.api.quantity import milli_value
from trimtab.members.probe import api_enablements
from trimtab.simulate.kubelets.node_status import NODES


def test_capacity_and_apis_come_from_real_nodes_and_discovery(fleet: RealFleet) -> None:
    with fleet.controllers("members", "--status-seconds=2"):
        fleet.loop.run(wait_until(lambda: all_ready(fleet)))
        for name in fleet.real_members:
            fleet.loop.run(assert_status_matches_member(fleet, name))


async def assert_status_matches_member(fleet: RealFleet, name: str) -> None:
    status = (await fleet.client.get(CLUSTERS, "", name))["status"]
    member = fleet.members[name]
    nodes = [node["status"]["allocatable"] for node in (await member.list(NODES)).items]
    capacity: dict[str, Any] = status["resourceSummary"]["allocatable"]
    for resource in ("cpu", "memory", "pods"):
        assert milli_value(capacity[resource]) == sum(milli_value(node[resource]) for node in nodes)
    assert status["nodeSummary"] == {"totalNum": len(nodes), "readyNum": len(nodes)}
    served = {(group["groupVersion"], one["name"]) for group in status["apiEnablements"] for one in group["resources"]}
    found = api_enablements(await member.resources())
    assert served == {(group.group_version, one.name) for group in found for one in group.resources}
    assert status["kubernetesVersion"].startswith("v1.")
