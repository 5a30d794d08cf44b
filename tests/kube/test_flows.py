"""Recorded flows of a live Karmada control plane pass on a real kube-apiserver exactly as on the embedded server."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.flow_compare import Difference
from compat.flows import AS_RECORDED, FLOWS, Exemption, Flow, exemptions
from kube.fleet import CLUSTERS, RealFleet, until

from trimtab.client.client import Resource
from trimtab.errors import NotFound

LEFT_OUT = {
    "deploy-static-scale": "its division is a tie, which uids break, and those cannot be given to a real server",
    "cluster-recover": "waits two minutes, and a member without its API server cannot be looked into",
}
PLAYED = sorted(path.parent for path in FLOWS.glob("*/input.yaml") if path.parent.name not in LEFT_OUT)
CLUSTER_WIDE = ("ClusterPropagationPolicy", "ResourceInterpreterCustomization", "WorkloadRebalancer", "ClusterRole")
OF_ANOTHER_RELEASE = [
    Exemption("members", "* .status.terminatingReplicas", "written by the newer release that was recorded"),
    Exemption("*", "*updateStrategy.rollingUpdate.maxUnavailable", "the newer release fills in a default"),
    Exemption("*", "*template.metadata.creationTimestamp", "the newer release leaves the null out"),
]
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFleet]:
    settings = [f"--set={name}={str(value).lower()}" for name, value in AS_RECORDED.items()]
    with RealFleet(tmp_path_factory.mktemp("fleet")) as fleet:
        controllers = fleet.controllers("controllers", "--profile=upstream", "--status-seconds=2", *settings)
        controllers.start()
        rules = [*exemptions(), *OF_ANOTHER_RELEASE]
        fleet.excused = lambda difference: any(rule.covers(difference) for rule in rules)
        try:
            yield fleet
        finally:
            controllers.stop()


@pytest.mark.parametrize("folder", PLAYED, ids=lambda folder: folder.name)
def test_a_recorded_flow(fleet: RealFleet, folder: Path) -> None:
    found = fleet.loop.do(play(fleet, Flow(folder)))
    assert not found, "\n".join(map(str, found[:20]))


async def play(fleet: RealFleet, flow: Flow) -> list[Difference]:
    await until(lambda: everything_is_free(fleet))
    await flow.begin(fleet)
    try:
        await until(lambda: has_namespace(fleet, flow.namespace))
        return [difference async for difference in flow.steps()]
    finally:
        await clean(fleet, flow)


async def everything_is_free(fleet: RealFleet) -> bool:
    """Every member is Ready with all its nodes, and no pod takes room there: as every flow found it."""
    clusters = (await fleet.client.list(CLUSTERS)).items
    return all(is_free(cluster, len(fleet.real[cluster["metadata"]["name"]].kubelets.machines)) for cluster in clusters)


def is_free(cluster: dict[str, Any], nodes: int) -> bool:
    status = cluster.get("status") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
    allocated = (status.get("resourceSummary") or {}).get("allocated") or {}
    return (
        ready
        and (status.get("nodeSummary") or {}).get("readyNum") == nodes
        and all(amount in ("0", 0) for amount in allocated.values())
        and not cluster["spec"].get("taints")
    )


async def has_namespace(fleet: RealFleet, name: str) -> bool:
    for member in fleet.members.values():
        try:
            await member.get(NAMESPACES, "", name)
        except NotFound:
            return False
    return True


async def clean(fleet: RealFleet, flow: Flow) -> None:
    """Leave the fleet as it was found; what runs in the members goes with the namespace."""
    for kind in CLUSTER_WIDE:
        resource = flow.resources[kind]
        for obj in (await fleet.client.list(resource)).items:
            if obj["metadata"]["name"].startswith(flow.namespace):
                with contextlib.suppress(NotFound):
                    await fleet.client.delete(resource, "", obj["metadata"]["name"])
    for cluster in (await fleet.client.list(CLUSTERS)).items:
        if cluster["spec"].get("taints"):
            await fleet.client.patch(CLUSTERS, "", cluster["metadata"]["name"], {"spec": {"taints": None}})
    await fleet.client.delete(NAMESPACES, "", flow.namespace)
