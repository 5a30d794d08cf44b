"""A member with system workloads looks like a cluster that kubeadm set up."""

import asyncio

from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.simulate.components.system_workloads import control_plane_node, mirror_pod
from trimtab.simulate.fleet import FleetPlan, uniform_fleet, with_system_workloads
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.world import World

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


async def pods_of(plan: FleetPlan) -> list[Raw]:
    world = World(plan, clock=LoopClock(), whole_clusters=True)
    await world.start()
    await asyncio.sleep(60)
    found = (await world["member1"].client.list(PODS, "kube-system")).items
    await world.stop()
    return found


def test_system_pods_run_and_the_control_plane_is_on_the_node_that_bears_its_name() -> None:
    pods = run_virtually(pods_of(with_system_workloads(uniform_fleet(1, 2))))
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    by_name = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
    assert by_name["etcd-member1-control-plane"] == "member1-control-plane"
    proxies = [node for name, node in by_name.items() if name.startswith("kube-proxy-")]
    assert sorted(proxies) == ["member1-control-plane", "member1-node-2"]
    assert sum(name.startswith("coredns-") for name in by_name) == 2


def test_other_members_have_no_system_pods() -> None:
    assert run_virtually(pods_of(uniform_fleet(1, 2))) == []
    assert [node.name for node in uniform_fleet(1, 1).members[0].node_plans()] == ["member1-node-1"]


def test_control_plane_runs_in_mirror_pods() -> None:
    pod = mirror_pod("etcd", control_plane_node("east"))
    assert pod["metadata"]["name"] == "etcd-east-control-plane"
    assert pod["metadata"]["annotations"] == {"kubernetes.io/config.mirror": "etcd-east-control-plane"}
