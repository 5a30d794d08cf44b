import pytest
from pod_builders import HOSTNAME, node, pod, pod_affinity

from plugins.movers.mover_runs import FAILED, LOW, NOON, PAIR, evicted_by, pods_on_a
from trimtab.api.profile import TRIMTAB
from trimtab.decide.pods.descheduling.evictor import CycleLimits
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.descheduling.movers import movers


def test_all_ten_strategies_are_registered() -> None:
    assert len(movers.names()) == 10


def test_nothing_is_evicted_with_a_single_node() -> None:
    assert evicted_by("RemoveFailedPods", [node("a")], [pod("p", on="a", status=FAILED)]) == []


def test_eviction_limits_are_respected() -> None:
    for limits in (CycleLimits(per_node=2), CycleLimits(per_namespace=2), CycleLimits(total=2)):
        assert evicted_by("LowNodeUtilization", PAIR, pods_on_a(7), limits=limits, **LOW) == ["p0", "p1"]


PROTECTED = {
    "bare": pod("p", on="a", owner=""),
    "daemon": pod("p", on="a", owner="DaemonSet/d"),
    "local storage": pod("p", on="a", volumes=[{"name": "v", "emptyDir": {}}]),
    "mirror": pod("p", on="a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
    "system-critical": pod("p", on="a", priority=2_000_000_000),
    "terminating": pod("p", on="a", metadata={"deletionTimestamp": NOON}),
}


@pytest.mark.parametrize("why", PROTECTED)
def test_protected_pods_are_not_evicted(why: str) -> None:
    nodes = [node("a", taints=["old:NoSchedule"]), node("b")]
    assert evicted_by("RemovePodsViolatingNodeTaints", nodes, [PROTECTED[why]]) == []


def test_the_evict_annotation_overrides_protections() -> None:
    invited = pod("p", on="a", owner="", metadata={"annotations": {"descheduler.alpha.kubernetes.io/evict": ""}})
    assert evicted_by(
        "RemovePodsViolatingNodeTaints", [node("a", taints=["old:NoSchedule"]), node("b")], [invited]
    ) == ["p"]


def test_capacity_promised_in_a_round_counts_only_in_our_profile() -> None:
    nodes = [node("a", taints=["old:NoSchedule"]), node("b", pods=1)]
    pods = [pod("p", on="a"), pod("q", on="a")]
    fit = EvictorArgs(node_fit=True)
    assert evicted_by("RemovePodsViolatingNodeTaints", nodes, pods, evictor=fit) == ["p", "q"]
    assert evicted_by("RemovePodsViolatingNodeTaints", nodes, pods, profile=TRIMTAB) == ["p"]


def test_the_fit_check_of_our_profile_respects_anti_affinity_of_running_pods() -> None:
    nodes = [node("a", taints=["old:NoSchedule"]), node("b")]
    shy = pod("shy", on="b", app="shy", **pod_affinity(HOSTNAME, anti=True))
    assert evicted_by("RemovePodsViolatingNodeTaints", nodes, [pod("p", on="a"), shy], profile=TRIMTAB) == []
