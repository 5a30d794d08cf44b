import asyncio

import orjson
import pytest

from simulate.fixtures import DEPLOYMENTS, NODES, deployment, run_in_member
from trimtab.api.selectors import LabelSelector
from trimtab.client.client import Resource
from trimtab.errors import NotFound
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.usage import PodLoad
from trimtab.store.store import Store

NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
GREEDY = PodLoad("greedy", selector=LabelSelector(match_labels={"app": "web"}), amounts={"cpu": 20000})


def test_member_serves_metrics_of_nodes_and_pods() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2, cpu="500m"))
        await asyncio.sleep(10)
        pods = (await member.client.list(POD_METRICS, "default", labels="app=web")).items
        assert [one["containers"][0]["usage"]["cpu"] for one in pods] == ["250m", "250m"]
        assert not (await member.client.list(POD_METRICS, "kube-system")).items
        nodes = {one["metadata"]["name"]: one["usage"]["cpu"] for one in (await member.client.list(NODE_METRICS)).items}
        assert sorted(nodes.values()) == ["0", "250m", "250m"]
        busy = next(name for name, cpu in nodes.items() if cpu == "250m")
        assert (await member.client.get(NODE_METRICS, "", busy))["usage"]["cpu"] == "250m"
        with pytest.raises(NotFound, match=r'^pods "none" not found$'):
            await member.client.get(POD_METRICS, "default", "none")
        found = await member.client.fetch("/apis/metrics.k8s.io/v1beta1")
        assert {one["name"] for one in orjson.loads(found.body)["resources"]} == {"nodes", "pods"}

    run_in_member(scenario)


def test_cpu_pressure_condition_follows_the_load_and_keeps_its_transition_time() -> None:
    async def pressure(member: SimulatedMember, node: str) -> tuple[str, str] | None:
        conditions = (await member.client.get(NODES, "", node))["status"]["conditions"]
        return next(
            ((one["status"], one["lastTransitionTime"]) for one in conditions if one["type"] == "CPUPressure"), None
        )

    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1, cpu="500m"))
        await asyncio.sleep(30)
        (node,) = {pod.spec.node_name for pod in member.pods}
        assert await pressure(member, node) is None
        member.usage.set(GREEDY)
        await asyncio.sleep(30)
        first = await pressure(member, node)
        assert first is not None
        assert first[0] == "True"
        await member.kubelets.set_pressure(node, "disk")
        assert await pressure(member, node) == first  # the time of the transition, not of the last report
        member.usage.clear("greedy")
        await asyncio.sleep(30)
        last = await pressure(member, node)
        assert last is not None
        assert last[0] == "False"

    run_in_member(scenario)


def test_api_server_without_metrics_server_serves_no_metrics() -> None:
    client = LocalClient(ApiServer(Store()))

    async def is_missing() -> bool:
        try:
            await client.list(NODE_METRICS)
        except NotFound:
            return True
        return False

    assert asyncio.run(is_missing())
