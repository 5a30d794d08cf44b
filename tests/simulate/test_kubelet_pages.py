"""The pages of simulated kubelets, through the proxy of their nodes."""

import asyncio

import orjson

from simulate.fixtures import PODS, run_in_whole_cluster, workload
from trimtab.api.selectors import LabelSelector
from trimtab.client.client import PlainResponse
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.usage import PodLoad

POD = {
    "containers": [
        {
            "name": "main",
            "image": "busybox",
            "command": ["sh", "-c", "echo one; echo two; sleep 9999"],
            "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}},
        }
    ]
}


async def start_pod(member: SimulatedMember) -> str:
    """Run a pod; returns its node."""
    await member.client.create(PODS, workload("Pod", "web", POD, "v1"))
    await asyncio.sleep(10)
    return member.pods[0].spec.node_name


async def fetch_page(member: SimulatedMember, node: str, page: str) -> PlainResponse:
    return await member.client.fetch(f"/api/v1/nodes/{node}/proxy/{page}")


def test_kubelet_serves_health_pods_configuration_and_logs() -> None:
    async def scenario(member: SimulatedMember) -> None:
        node = await start_pod(member)
        for page in ("healthz", "healthz/ping", "healthz/syncloop"):
            assert (await fetch_page(member, node, page)).body == b"ok"
        for page in ("pods", "runningpods/"):
            listed = orjson.loads((await fetch_page(member, node, page)).body)
            assert [one["metadata"]["name"] for one in listed["items"]] == ["web"]
        config = orjson.loads((await fetch_page(member, node, "configz")).body)
        assert config["kubeletconfig"]["maxPods"] == 110
        assert b"containers/" in (await fetch_page(member, f"{node}:10250", "logs/")).body
        log = await fetch_page(member, node, "containerLogs/default/web/main?tailLines=1")
        assert log.body == b"two\n"
        assert (await fetch_page(member, node, "containerLogs/default/web/main?tailLines=x")).code == 400
        for page in ("containerLogs/default/web/none", "containerLogs/default/none/main", "containerLogs/web", "none"):
            assert (await fetch_page(member, node, page)).code == 404

    run_in_whole_cluster(scenario)


def test_kubelet_serves_usage_as_statistics_and_metrics() -> None:
    async def scenario(member: SimulatedMember) -> None:
        node = await start_pod(member)
        summary = orjson.loads((await fetch_page(member, node, "stats/summary")).body)
        assert summary["node"]["nodeName"] == node
        assert summary["node"]["cpu"]["usageNanoCores"] == 100_000_000
        (pod,) = summary["pods"]
        assert pod["podRef"]["name"] == "web"
        assert pod["containers"][0]["memory"]["workingSetBytes"] == 32 << 20
        text = (await fetch_page(member, node, "metrics/resource")).body.decode()
        memory = 'container_memory_working_set_bytes{container="main",namespace="default",pod="web"} 33554432'
        assert memory in text.splitlines()
        assert "kubelet_running_pods 1" in (await fetch_page(member, node, "metrics")).body.decode().splitlines()
        cores = member.kubelets.machines[node].capacity["cpu"] // 1000
        cadvisor = (await fetch_page(member, node, "metrics/cadvisor")).body.decode().splitlines()
        assert f"machine_cpu_cores {cores}" in cadvisor
        assert (await fetch_page(member, node, "metrics/probes")).body == b""

    run_in_whole_cluster(scenario)


def test_cpu_time_grows_by_what_is_used_and_never_decreases() -> None:
    async def cpu_seconds(member: SimulatedMember, node: str) -> float:
        text = (await fetch_page(member, node, "metrics/resource")).body.decode()
        return float(next(one for one in text.splitlines() if one.startswith("node_cpu_usage")).split()[1])

    async def scenario(member: SimulatedMember) -> None:
        node = await start_pod(member)
        first = await cpu_seconds(member, node)
        await asyncio.sleep(100)
        second = await cpu_seconds(member, node)
        assert round(second - first, 3) == 10.0
        member.usage.set(PodLoad("idle", selector=LabelSelector(), amounts={"cpu": 0}))
        await asyncio.sleep(100)
        assert await cpu_seconds(member, node) == second

    run_in_whole_cluster(scenario)


def test_kubelet_of_a_machine_that_is_off_and_other_ports_do_not_answer() -> None:
    async def scenario(member: SimulatedMember) -> None:
        node = await start_pod(member)
        assert (await fetch_page(member, f"{node}:10255", "metrics")).code == 503
        member.kubelets.fail(node)
        assert (await fetch_page(member, node, "healthz")).code == 503

    run_in_whole_cluster(scenario)
