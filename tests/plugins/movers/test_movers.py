from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pod_builders import HOSTNAME, ZONE, near, node, pod, spread

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.descheduling.evictor import NO_LIMITS, Cycle, Limits
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.descheduling.movers import movers, run_mover
from trimtab.decide.pods.metrics.measurements import Measures

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def moved(
    name: str,
    nodes: list[Node],
    pods: list[Pod],
    *,
    evictor: EvictorArgs | None = None,
    profile: Profile = UPSTREAM,
    limits: Limits = NO_LIMITS,
    measures: Measures | None = None,
    **args: Any,
) -> list[str]:
    cycle = Cycle(Scene.of(nodes, pods, now=NOON), profile, limits, measures)
    run_mover(name, args, cycle, evictor)
    assert all(eviction.reason and eviction.strategy == name for eviction in cycle.evictions)
    return [eviction.pod.name for eviction in cycle.evictions]


PAIR = [node("a", zone="east"), node("b", zone="west")]
FAILED = {"phase": "Failed", "reason": "Evicted"}


def born(hours: float) -> dict[str, Any]:
    return {"creationTimestamp": NOON - timedelta(hours=hours)}


def test_all_ten_strategies_are_here() -> None:
    assert len(movers.names()) == 10


def test_with_a_single_node_nothing_moves() -> None:
    assert moved("RemoveFailedPods", [node("a")], [pod("p", on="a", status=FAILED)]) == []


def test_failed_pods_are_cleared_away() -> None:
    assert moved("RemoveFailedPods", PAIR, [pod("p", on="a", status=FAILED), pod("q", on="a")]) == ["p"]


def test_the_oldest_goes_first() -> None:
    pods = [
        pod("young", on="a", metadata=born(1)),
        pod("mid", on="a", metadata=born(5)),
        pod("old", on="b", metadata=born(9)),
    ]
    assert moved("PodLifeTime", PAIR, pods, maxPodLifeTimeSeconds=7200) == ["old", "mid"]


def test_restless_pods_move() -> None:
    status = {"containerStatuses": [{"name": "c", "restartCount": 7}]}
    found = moved("RemovePodsHavingTooManyRestarts", PAIR, [pod("p", on="a", status=status)], podRestartThreshold=7)
    assert found == ["p"]


def test_doubles_leave_until_every_node_has_its_share() -> None:
    pods = [pod(f"p{i}", on="a") for i in range(4)]
    assert moved("RemoveDuplicates", PAIR, pods) == ["p2", "p3"]


def test_the_lesser_of_two_quarrelling_pods_goes() -> None:
    avoids = near(HOSTNAME, repels=True)
    pods = [pod("high", on="a", priority=9, **avoids), pod("low", on="a", priority=1, **avoids)]
    assert moved("RemovePodsViolatingInterPodAntiAffinity", PAIR, pods) == ["low"]


def test_a_pod_on_a_node_it_no_longer_wants_moves() -> None:
    wanted = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["west"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    kinds = ["requiredDuringSchedulingIgnoredDuringExecution"]
    pods = [pod("p", on="a", affinity=affinity), pod("q", on="b", affinity=affinity)]
    assert moved("RemovePodsViolatingNodeAffinity", PAIR, pods, nodeAffinityType=kinds) == ["p"]


def test_a_pod_that_does_not_tolerate_a_new_taint_moves() -> None:
    nodes = [node("a", taints=["old=x:NoSchedule"]), node("b")]
    assert moved("RemovePodsViolatingNodeTaints", nodes, [pod("p", on="a")]) == ["p"]
    assert moved("RemovePodsViolatingNodeTaints", nodes, [pod("p", on="a")], excludedTaints=["old=x"]) == []


def test_pods_are_spread_and_the_least_important_goes_first_in_our_profile() -> None:
    pods = [pod(f"p{i}", on="a", priority=i, **spread(ZONE)) for i in range(4)]
    name = "RemovePodsViolatingTopologySpreadConstraint"
    assert sorted(moved(name, PAIR, pods)) == ["p2", "p3"]
    assert sorted(moved(name, PAIR, pods, profile=TRIMTAB)) == ["p0", "p1"]


def crowd(count: int) -> list[Pod]:
    return [pod(f"p{i}", on="a", cpu="500m", priority=i) for i in range(count)]


LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}


def test_a_crowded_node_gives_to_an_idle_one_until_it_is_no_longer_crowded() -> None:
    assert moved("LowNodeUtilization", PAIR, crowd(7), **LOW) == ["p0", "p1", "p2"]


def test_a_hardly_used_node_is_emptied() -> None:
    pods = [pod("p", on="a", cpu="100m"), *(pod(f"q{i}", on="b", cpu="500m") for i in range(4))]
    assert moved("HighNodeUtilization", PAIR, pods, thresholds={"cpu": 20}) == ["p"]


def test_limits_of_a_round_hold() -> None:
    for limits in (Limits(per_node=2), Limits(per_namespace=2), Limits(total=2)):
        assert moved("LowNodeUtilization", PAIR, crowd(7), limits=limits, **LOW) == ["p0", "p1"]


PROTECTED = {
    "bare": pod("p", on="a", owner=""),
    "daemon": pod("p", on="a", owner="DaemonSet/d"),
    "local storage": pod("p", on="a", volumes=[{"name": "v", "emptyDir": {}}]),
    "mirror": pod("p", on="a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
    "system-critical": pod("p", on="a", priority=2_000_000_000),
    "terminating": pod("p", on="a", metadata={"deletionTimestamp": NOON}),
}


@pytest.mark.parametrize("why", PROTECTED)
def test_protected_pods_stay(why: str) -> None:
    nodes = [node("a", taints=["old:NoSchedule"]), node("b")]
    assert moved("RemovePodsViolatingNodeTaints", nodes, [PROTECTED[why]]) == []


def test_an_invited_pod_goes_whatever_protects_it() -> None:
    invited = pod("p", on="a", owner="", metadata={"annotations": {"descheduler.alpha.kubernetes.io/evict": ""}})
    assert moved("RemovePodsViolatingNodeTaints", [node("a", taints=["old:NoSchedule"]), node("b")], [invited]) == ["p"]


def test_upstream_forgets_what_the_round_has_promised_and_we_do_not() -> None:
    nodes = [node("a", taints=["old:NoSchedule"]), node("b", pods=1)]
    pods = [pod("p", on="a"), pod("q", on="a")]
    fit = EvictorArgs(node_fit=True)
    assert moved("RemovePodsViolatingNodeTaints", nodes, pods, evictor=fit) == ["p", "q"]
    assert moved("RemovePodsViolatingNodeTaints", nodes, pods, profile=TRIMTAB) == ["p"]


def test_looking_ahead_minds_the_neighbours() -> None:
    nodes = [node("a", taints=["old:NoSchedule"]), node("b")]
    shy = pod("shy", on="b", app="shy", **near(HOSTNAME, repels=True))
    assert moved("RemovePodsViolatingNodeTaints", nodes, [pod("p", on="a"), shy], profile=TRIMTAB) == []


def test_protected_replicas_count_for_the_skew_in_our_profile_and_stay_where_they_are() -> None:
    """Two of a's five pods may move; upstream sees two against two and does nothing, we see five against two."""
    held = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    pods = [pod(f"held{i}", on="a", metadata=held, **spread(ZONE)) for i in range(3)]
    pods += [pod(f"free{i}", on="a", **spread(ZONE)) for i in range(2)]
    pods += [pod(f"there{i}", on="b", **spread(ZONE)) for i in range(2)]
    name = "RemovePodsViolatingTopologySpreadConstraint"
    assert moved(name, PAIR, pods) == []
    assert moved(name, PAIR, pods, profile=TRIMTAB) == ["free1"]


def test_the_node_furthest_above_its_limit_gives_first_in_our_profile() -> None:
    """Memory decides upstream, because bytes outnumber thousandths of cpu."""
    nodes = [
        node("hot", cpu="4", memory="64Gi"),
        node("big", cpu="16", memory="64Gi"),
        node("idle", cpu="16", memory="64Gi"),
    ]
    pods = [pod(f"h{i}", on="hot", cpu="950m", memory="1Gi") for i in range(4)]
    pods += [pod(f"b{i}", on="big", cpu="3", memory="8Gi") for i in range(3)]
    few = Limits(total=1)
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    assert moved("LowNodeUtilization", nodes, pods, limits=few, **args) == ["b0"]
    assert moved("LowNodeUtilization", nodes, pods, limits=few, profile=TRIMTAB, **args) == ["h0"]


@pytest.mark.parametrize("taint", ["own=gpu:PreferNoSchedule", "own=gpu:NoSchedule"])
def test_taints_of_idle_nodes_are_asked_as_the_scheduler_asks_them(taint: str) -> None:
    """Upstream minds every effect and counts tolerations; we mind only what really keeps a pod away."""
    nodes = [node("a"), node("idle", taints=[taint]), node("middle")]
    pods = [*crowd(7), *(pod(f"m{i}", on="middle", cpu="500m") for i in range(3))]
    assert moved("LowNodeUtilization", nodes, pods, **LOW) == []
    ours = moved("LowNodeUtilization", nodes, pods, profile=TRIMTAB, **LOW)
    assert ours == (["p0", "p1", "p2"] if taint.endswith("PreferNoSchedule") else [])


def test_a_crowded_node_gives_only_what_some_idle_node_would_take_in_our_profile() -> None:
    """The idle node is of another pool: what leaves would go to the node in the middle, and crowd that."""
    wants = {"nodeSelector": {"pool": "x"}}
    nodes = [node("a", labels={"pool": "x"}), node("idle"), node("middle", labels={"pool": "x"})]
    pods = [pod(f"p{i}", on="a", cpu="500m", priority=i, **wants) for i in range(7)]
    pods += [pod(f"m{i}", on="middle", cpu="500m", **wants) for i in range(3)]
    assert moved("LowNodeUtilization", nodes, pods, **LOW) == ["p0", "p1", "p2"]
    assert moved("LowNodeUtilization", nodes, pods, profile=TRIMTAB, **LOW) == []


USED = {**LOW, "metricsUtilization": {"source": "KubernetesMetrics"}}
GIB = 1 << 30


def used(nodes: dict[str, int], pods: dict[str, int], **averages: int) -> Measures:
    """CPU in thousandths; everybody uses a little memory."""
    return Measures(
        {name: {"cpu": cpu, "memory": GIB} for name, cpu in nodes.items()},
        {("default", name): {"cpu": cpu, "memory": GIB // 8} for name, cpu in pods.items()},
        {name: {"cpu": cpu, "memory": GIB} for name, cpu in averages.items()},
    )


@pytest.mark.parametrize("profile", [UPSTREAM, TRIMTAB])
def test_what_is_used_may_count_instead_of_what_is_requested(profile: Profile) -> None:
    pods = [pod(f"p{i}", on="a", cpu="100m", priority=i) for i in range(4)]
    assert moved("LowNodeUtilization", PAIR, pods, profile=profile, **LOW) == []
    busy = used({"a": 3600, "b": 100}, {f"p{i}": 900 for i in range(4)})
    assert moved("LowNodeUtilization", PAIR, pods, profile=profile, measures=busy, **USED) == ["p0", "p1"]
    idle = used({"a": 100, "b": 100}, {})
    assert moved("LowNodeUtilization", PAIR, crowd(7), profile=profile, measures=idle, **USED) == []


def test_a_peak_counts_less_than_the_average_and_a_pod_that_nobody_measures_stays() -> None:
    pods = [pod(f"p{i}", on="a", cpu="100m", priority=i) for i in range(4)]
    everyone = {f"p{i}": 900 for i in range(4)}
    peak = used({"a": 3600, "b": 100}, everyone, a=1500, b=100)
    assert moved("LowNodeUtilization", PAIR, pods, measures=peak, **USED) == []
    busy = used({"a": 3600, "b": 100}, {name: 900 for name in everyone if name != "p0"})
    assert moved("LowNodeUtilization", PAIR, pods, measures=busy, **USED) == ["p1", "p2"]


def test_who_counts_what_is_used_is_off_and_says_so_where_nothing_tells() -> None:
    for measures, why in ((None, "nothing tells that here"), (used({"a": 3600}, {}), "nothing tells what b uses")):
        cycle = Cycle(Scene.of(PAIR, crowd(7), now=NOON), UPSTREAM, measures=measures)
        run_mover("LowNodeUtilization", USED, cycle)
        assert cycle.evictions == []
        assert [why in note for note in cycle.notes] == [True]
