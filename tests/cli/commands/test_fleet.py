"""`trimtab fleet`: the rows of clusters."""

import asyncio

import msgspec
from click.testing import CliRunner

from trimtab.api.kinds.cluster import Cluster
from trimtab.cli.commands import fleet

STATUS = {
    "kubernetesVersion": "v1.32.0",
    "conditions": [{"type": "Ready", "status": "True"}],
    "nodeSummary": {"totalNum": 3, "readyNum": 2},
    "resourceSummary": {
        "allocatable": {"cpu": "12", "memory": "8Gi", "pods": "330"},
        "allocated": {"cpu": "1500m", "memory": "2Gi", "pods": "10"},
        "allocating": {"cpu": "500m", "pods": "1"},
    },
}


def cluster(name: str, **status: object) -> Cluster:
    spec = {"syncMode": "Push", "region": "eu", "taints": [{"key": "a", "effect": "NoSchedule"}]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Cluster, strict=False)


def test_row_shows_readiness_nodes_and_free_capacity() -> None:
    cells = fleet.cluster_row(cluster("m1", **STATUS))
    assert cells == ("m1", "True", "v1.32.0", "Push", "eu", "2/3", "10.0", "6.0Gi", "319", "a:NoSchedule")


def test_cluster_without_status_has_unknown_readiness() -> None:
    assert fleet.cluster_row(cluster("m1"))[1:9] == ("Unknown", "-", "Push", "eu", "-", "-", "-", "-")


def test_empty_fleet_shows_how_to_join_a_cluster(monkeypatch) -> None:
    async def no_clusters(client: object) -> list[Cluster]:
        return []

    monkeypatch.setattr(fleet, "list_clusters", no_clusters)
    monkeypatch.setattr("trimtab.cli.support.reports.with_client", lambda _, __, work: asyncio.run(work(None)))
    assert CliRunner().invoke(fleet.command).output.startswith("There are no clusters. Join one with: trimtab join")


def test_free_capacity_is_what_is_free_on_the_nodes_and_never_negative() -> None:
    nodes = [{"count": 2, "free": {"cpu": "3500m", "memory": "4Gi", "pods": "9"}}, {"count": 1, "free": {"pods": "1"}}]
    summary = {"allocatable": {"cpu": "24", "memory": "48Gi", "pods": "30"}, "allocating": {"cpu": "90", "pods": "1"}}
    reported = {"resourceSummary": summary, "freeNodes": {"pools": [{"nodes": nodes}]}}
    counted = msgspec.convert({"metadata": {"name": "m1"}, "status": reported}, Cluster, strict=False)
    assert [fleet.free_text(counted, name) for name in ("cpu", "memory", "pods")] == ["7.0", "8.0Gi", "19"]
    overbooked = msgspec.convert({"status": {"resourceSummary": summary}}, Cluster, strict=False)
    assert [fleet.free_text(overbooked, name) for name in ("cpu", "memory", "pods")] == ["0.0", "48.0Gi", "29"]
