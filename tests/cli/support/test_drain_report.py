"""The report about a cluster: which workloads stay, which leave and when, and what delays them."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import OutageThresholds
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.cli.support.drain_report import FleetOverview, cluster_report, explain_cluster, report_lines
from trimtab.client.client import Listing, PlainResponse, Resource
from trimtab.clock import EPOCH

UNREACHABLE = {"key": "cluster.karmada.io/unreachable", "effect": "NoExecute", "timeAdded": "2030-01-01T00:05:00Z"}
NOW = EPOCH + timedelta(minutes=6)


def cluster(name: str, *, ready: bool = True, taints: Any = ()) -> Cluster:
    ready_condition = {
        "type": "Ready",
        "status": str(ready),
        "lastTransitionTime": "2030-01-01T00:00:00Z",
        "message": "no heartbeat",
    }
    body = {"metadata": {"name": name}, "spec": {"taints": list(taints)}, "status": {"conditions": [ready_condition]}}
    return msgspec.convert(body, Cluster, strict=False)


def binding(name: str, tolerations: str = "[]", **status: Any) -> ResourceBinding:
    placement = f'{{"clusterTolerations":{tolerations}}}'
    body = {
        "metadata": {
            "name": f"{name}-deployment",
            "namespace": "default",
            "annotations": {"policy.karmada.io/applied-placement": placement},
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
            "clusters": [{"name": "m1", "replicas": 2}],
        },
        "status": status,
    }
    return msgspec.convert(body, ResourceBinding, strict=False)


def report(
    first: Cluster, *bindings: ResourceBinding, unready: int = 0, profile: Any = TRIMTAB, settings: Any = None
) -> str:
    others = [cluster(f"m{n}", ready=n > unready + 1) for n in range(2, 11)]
    overview = FleetOverview([first, *others], bindings, OutageThresholds(), NOW, settings or {})
    return "\n".join(report_lines(first, overview, profile))


def test_ready_cluster_keeps_its_workloads() -> None:
    text = report(cluster("m1"), binding("web"))
    assert text.splitlines()[2].split() == ["PRECONDITION", "STATUS"]
    assert "Cluster m1 is ready since 2030-01-01 00:00:00 UTC." in text
    assert "none, and none is scheduled" in text
    assert "stays: the cluster has no NoExecute taint" in text


def test_unready_cluster_shows_when_it_is_evacuated() -> None:
    unready = cluster("m1", ready=False)
    assert "is not ready since 2030-01-01 00:00:00 UTC: no heartbeat" in report(unready)
    assert "set at 2030-01-01 00:05:00 UTC" in report(unready)
    assert "set only by users and ClusterTaintPolicies" in report(unready, profile=UPSTREAM)
    assert "No workload is placed in this cluster." in report(unready)


def test_delay_of_the_evacuation_is_that_of_the_server() -> None:
    unready = cluster("m1", ready=False)
    for profile in (TRIMTAB, UPSTREAM):
        assert "set at 2030-01-01 00:00:10 UTC" in report(
            unready, profile=profile, settings={"evacuate-after-seconds": 10}
        )
    never = report(unready, settings={"evacuate-after-seconds": 0})
    assert "evacuate-after-seconds is 0, so it is set only by users and ClusterTaintPolicies" in never


def test_settings_in_the_report_are_those_that_the_server_tells() -> None:
    class Server:
        """Serves one cluster that is not ready, and its settings."""

        async def fetch(self, path: str) -> PlainResponse:
            assert path == "/debug/profile"
            return PlainResponse(200, b'{"settings": {"evacuate-after-seconds": 10}}')

        async def list(self, resource: Resource, *_: Any, **__: Any) -> Listing:
            body = msgspec.to_builtins(cluster("m1", ready=False))
            return Listing([body] if resource.kind == "Cluster" else [], "1")

    text = asyncio.run(explain_cluster(Server(), "m1", None, NOW))  # type: ignore[arg-type]
    assert "set at 2030-01-01 00:00:10 UTC" in text


def test_each_workload_shows_whether_and_when_the_taint_evicts_it() -> None:
    forever = '[{"operator":"Exists"}]'
    for_a_while = '[{"operator":"Exists","tolerationSeconds":300}]'
    text = report(
        cluster("m1", ready=False, taints=[UNREACHABLE]),
        binding("goes"),
        binding("waits", for_a_while),
        binding("stays", forever),
    )
    assert "cluster.karmada.io/unreachable since 2030-01-01 00:05:00 UTC" in text
    rows = {line.split()[1]: line.split(maxsplit=3)[3] for line in text.splitlines() if line.startswith("Deployment ")}
    assert rows["default/goes"] == "is evicted as soon as the eviction rate allows it"
    assert rows["default/waits"] == "stays until 2030-01-01 00:10:00 UTC: its policy tolerates the taint until then"
    assert rows["default/stays"] == "stays: its policy tolerates the taint"


def test_stalled_workload_shows_its_condition() -> None:
    stuck = {"type": "Stalled", "status": "True", "reason": "EvictionBlocked", "message": "stays in m1: no room"}
    text = report(cluster("m1", ready=False, taints=[UNREACHABLE]), binding("web", conditions=[stuck]))
    assert "EvictionBlocked: stays in m1: no room" in text


def test_storm_of_failures_is_shown_as_precondition() -> None:
    unready = cluster("m1", ready=False, taints=[UNREACHABLE])
    assert "met: 2 of 10 clusters are not ready" in report(unready, unready=1)
    assert "4 of 10 clusters are not ready, more than 30%: the eviction rate is reduced" in report(unready, unready=3)
    assert "more than 60%: evacuation is stopped until clusters recover" in report(unready, unready=6)


def test_leaving_cluster_shows_what_blocks_it_and_what_moves() -> None:
    drained = {"type": "Drained", "status": "False", "reason": "Blocked", "message": "1 cannot leave now: web"}
    body = {
        "metadata": {"name": "m1", "deletionTimestamp": "2030-01-01T00:05:00Z"},
        "status": {"conditions": [drained]},
    }
    leaving = msgspec.convert(body, Cluster, strict=False)
    text = report(leaving, binding("web"), binding("shop", holds=[{"cluster": "m1", "replicas": 2}]))
    assert "the cluster leaves the fleet: 1 cannot leave now: web" in text
    assert "moves to other clusters with the drain" in text
    assert "is moving: 2 replicas wait until their replacement is ready" in text
    assert "its Works with it" in report(leaving, profile=UPSTREAM)


def test_report_is_data_as_well() -> None:
    first = cluster("m1", ready=False, taints=[UNREACHABLE])
    found = cluster_report(first, FleetOverview([first], [binding("web")], OutageThresholds(), NOW), TRIMTAB)
    document = msgspec.to_builtins(found)
    assert document["cluster"] == "m1"
    assert "unreachable" in document["noExecuteTaint"]
    assert document["workloads"] == [
        {
            "kind": "Deployment",
            "namespace": "default",
            "name": "web",
            "replicas": 2,
            "outlook": "is evicted as soon as the eviction rate allows it",
        }
    ]
