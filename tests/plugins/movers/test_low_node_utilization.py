import pytest
from pod_builders import node, pod

from plugins.movers.mover_runs import LOW, NOON, PAIR, evicted_by, pods_on_a
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import CycleLimits, DeschedulingCycle
from trimtab.decide.pods.descheduling.movers import run_mover
from trimtab.decide.pods.metrics.measurements import UsageMetrics


def test_pods_are_evicted_until_the_node_is_below_its_threshold() -> None:
    assert evicted_by("LowNodeUtilization", PAIR, pods_on_a(7), **LOW) == ["p0", "p1", "p2"]


def test_our_profile_starts_with_the_node_furthest_above_its_limit() -> None:
    """Memory decides upstream, because bytes outnumber milli-cpu."""
    nodes = [
        node("hot", cpu="4", memory="64Gi"),
        node("big", cpu="16", memory="64Gi"),
        node("idle", cpu="16", memory="64Gi"),
    ]
    pods = [pod(f"h{i}", on="hot", cpu="950m", memory="1Gi") for i in range(4)]
    pods += [pod(f"b{i}", on="big", cpu="3", memory="8Gi") for i in range(3)]
    few = CycleLimits(total=1)
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    assert evicted_by("LowNodeUtilization", nodes, pods, limits=few, **args) == ["b0"]
    assert evicted_by("LowNodeUtilization", nodes, pods, limits=few, profile=TRIMTAB, **args) == ["h0"]


@pytest.mark.parametrize("taint", ["own=gpu:PreferNoSchedule", "own=gpu:NoSchedule"])
def test_taints_of_underutilised_nodes_are_checked_as_by_the_scheduler(taint: str) -> None:
    """Upstream checks every effect and counts tolerations; our profile checks only taints that keep a pod away."""
    nodes = [node("a"), node("idle", taints=[taint]), node("middle")]
    pods = [*pods_on_a(7), *(pod(f"m{i}", on="middle", cpu="500m") for i in range(3))]
    assert evicted_by("LowNodeUtilization", nodes, pods, **LOW) == []
    ours = evicted_by("LowNodeUtilization", nodes, pods, profile=TRIMTAB, **LOW)
    assert ours == (["p0", "p1", "p2"] if taint.endswith("PreferNoSchedule") else [])


def test_our_profile_evicts_only_pods_that_fit_an_underutilised_node() -> None:
    """The idle node is of another pool: evicted pods would go to the middle node and overload it."""
    wants = {"nodeSelector": {"pool": "x"}}
    nodes = [node("a", labels={"pool": "x"}), node("idle"), node("middle", labels={"pool": "x"})]
    pods = [pod(f"p{i}", on="a", cpu="500m", priority=i, **wants) for i in range(7)]
    pods += [pod(f"m{i}", on="middle", cpu="500m", **wants) for i in range(3)]
    assert evicted_by("LowNodeUtilization", nodes, pods, **LOW) == ["p0", "p1", "p2"]
    assert evicted_by("LowNodeUtilization", nodes, pods, profile=TRIMTAB, **LOW) == []


USED = {**LOW, "metricsUtilization": {"source": "KubernetesMetrics"}}
GIB = 1 << 30


def metrics(nodes: dict[str, int], pods: dict[str, int], **averages: int) -> UsageMetrics:
    """CPU in milli-units; every pod uses a little memory."""
    return UsageMetrics(
        {name: {"cpu": cpu, "memory": GIB} for name, cpu in nodes.items()},
        {("default", name): {"cpu": cpu, "memory": GIB // 8} for name, cpu in pods.items()},
        {name: {"cpu": cpu, "memory": GIB} for name, cpu in averages.items()},
    )


@pytest.mark.parametrize("profile", [UPSTREAM, TRIMTAB])
def test_measured_usage_can_replace_requests(profile: Profile) -> None:
    pods = [pod(f"p{i}", on="a", cpu="100m", priority=i) for i in range(4)]
    assert evicted_by("LowNodeUtilization", PAIR, pods, profile=profile, **LOW) == []
    busy = metrics({"a": 3600, "b": 100}, {f"p{i}": 900 for i in range(4)})
    assert evicted_by("LowNodeUtilization", PAIR, pods, profile=profile, measures=busy, **USED) == ["p0", "p1"]
    idle = metrics({"a": 100, "b": 100}, {})
    assert evicted_by("LowNodeUtilization", PAIR, pods_on_a(7), profile=profile, measures=idle, **USED) == []


def test_the_average_counts_and_pods_without_metrics_stay() -> None:
    pods = [pod(f"p{i}", on="a", cpu="100m", priority=i) for i in range(4)]
    everyone = {f"p{i}": 900 for i in range(4)}
    peak = metrics({"a": 3600, "b": 100}, everyone, a=1500, b=100)
    assert evicted_by("LowNodeUtilization", PAIR, pods, measures=peak, **USED) == []
    busy = metrics({"a": 3600, "b": 100}, {name: 900 for name in everyone if name != "p0"})
    assert evicted_by("LowNodeUtilization", PAIR, pods, measures=busy, **USED) == ["p1", "p2"]


def test_without_metrics_the_strategy_does_nothing_and_says_so() -> None:
    for measures, why in (
        (None, "metrics.k8s.io is not available"),
        (metrics({"a": 3600}, {}), "there are none of node b"),
    ):
        cycle = DeschedulingCycle(ClusterView.of(PAIR, pods_on_a(7), now=NOON), UPSTREAM, metrics=measures)
        run_mover("LowNodeUtilization", USED, cycle)
        assert cycle.evictions == []
        assert [why in note for note in cycle.notes] == [True]
