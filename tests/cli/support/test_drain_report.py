"""People are told what becomes of the workloads of a cluster, and what has to happen before one leaves it."""

from datetime import timedelta
from typing import Any

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import Storm
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.cli.support.drain_report import Scene, lines
from trimtab.clock import EPOCH

UNREACHABLE = {"key": "cluster.karmada.io/unreachable", "effect": "NoExecute", "timeAdded": "2030-01-01T00:05:00Z"}
NOW = EPOCH + timedelta(minutes=6)


def cluster(name: str, *, ready: bool = True, taints: Any = ()) -> Cluster:
    said = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2030-01-01T00:00:00Z", "message": "silence"}
    body = {"metadata": {"name": name}, "spec": {"taints": list(taints)}, "status": {"conditions": [said]}}
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


def told(first: Cluster, *bindings: ResourceBinding, dark: int = 0, profile: Any = TRIMTAB) -> str:
    others = [cluster(f"m{n}", ready=n > dark + 1) for n in range(2, 11)]
    return "\n".join(lines(first, Scene([first, *others], bindings, Storm(), NOW), profile))


def test_a_cluster_that_is_well_keeps_what_it_has() -> None:
    text = told(cluster("m1"), binding("web"))
    assert "Cluster m1 is ready since 2030-01-01 00:00:00 UTC." in text
    assert "none, and none is due" in text
    assert "stays: nothing drives it out" in text


def test_a_dark_cluster_tells_when_it_will_be_evacuated_or_that_it_never_will() -> None:
    dark = cluster("m1", ready=False)
    assert "is not ready since 2030-01-01 00:00:00 UTC: silence" in told(dark)
    assert "set at 2030-01-01 00:05:00 UTC" in told(dark)
    assert "only people and ClusterTaintPolicies set it" in told(dark, profile=UPSTREAM)
    assert "No workload is placed there." in told(dark)


def test_each_workload_tells_whether_and_when_the_taint_drives_it_out() -> None:
    forever = '[{"operator":"Exists"}]'
    for_a_while = '[{"operator":"Exists","tolerationSeconds":300}]'
    text = told(
        cluster("m1", ready=False, taints=[UNREACHABLE]),
        binding("goes"),
        binding("waits", for_a_while),
        binding("stays", forever),
    )
    assert "cluster.karmada.io/unreachable since 2030-01-01 00:05:00 UTC" in text
    rows = {line.split()[1]: line.split(maxsplit=3)[3] for line in text.splitlines() if line.startswith("Deployment ")}
    assert rows["default/goes"] == "leaves when it is its turn"
    assert rows["default/waits"] == "stays until 2030-01-01 00:10:00 UTC, as its policy tolerates the taint"
    assert rows["default/stays"] == "stays: its policy tolerates the taint"


def test_what_keeps_a_workload_is_told_in_its_own_words() -> None:
    stuck = {"type": "Stalled", "status": "True", "reason": "EvictionBlocked", "message": "stays in m1: no room"}
    text = told(cluster("m1", ready=False, taints=[UNREACHABLE]), binding("web", conditions=[stuck]))
    assert "EvictionBlocked: stays in m1: no room" in text


def test_a_storm_is_told_before_anybody_wonders_why_nothing_moves() -> None:
    dark = cluster("m1", ready=False, taints=[UNREACHABLE])
    assert "quiet: 2 of 10 clusters are not ready" in told(dark, dark=1)
    assert "4 of 10 clusters are not ready, more than 30%: evictions are slow" in told(dark, dark=3)
    assert "more than 60%: nothing is evacuated until some return" in told(dark, dark=6)
