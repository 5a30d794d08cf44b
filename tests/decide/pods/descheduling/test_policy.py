from typing import Any

import pytest
from pod_builders import node, pod

from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.policy import planned_evictions, read_policy
from trimtab.errors import InputError


def policy(*, deschedule: list[str], args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    config = [{"name": name, "args": given} for name, given in (args or {}).items()]
    plugins = {"deschedule": {"enabled": deschedule}}
    profile = {"name": "main", "pluginConfig": config, "plugins": plugins}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **more}


TAINTS = "RemovePodsViolatingNodeTaints"
CLUSTER_VIEW = ClusterView.of(
    [node("a", taints=["old:NoSchedule"]), node("b", labels={"pool": "x"}), node("c", taints=["old:NoSchedule"])],
    [pod("p", on="a"), pod("q", on="a", priority=2_000_000_000), pod("r", on="c")],
)


def evicted_names(raw: dict[str, Any]) -> list[str]:
    return [eviction.pod.name for eviction in planned_evictions(read_policy(raw), CLUSTER_VIEW)]


def test_policy_of_descheduler_v1alpha2_is_followed() -> None:
    assert evicted_names(policy(deschedule=[TAINTS])) == ["p", "r"]


def test_evictor_args_and_limits_of_the_policy_apply() -> None:
    args = {"DefaultEvictor": {"evictSystemCriticalPods": True}}
    assert evicted_names(policy(deschedule=[TAINTS], args=args)) == ["p", "q", "r"]
    assert evicted_names(policy(deschedule=[TAINTS], args=args, maxNoOfPodsToEvictPerNode=1)) == ["p", "r"]
    assert evicted_names(policy(deschedule=[TAINTS], args=args, maxNoOfPodsToEvictTotal=2)) == ["p", "q"]


def test_pod_is_evicted_once_per_cycle() -> None:
    assert evicted_names(policy(deschedule=[TAINTS, TAINTS])) == ["p", "r"]


def test_only_selected_nodes_are_considered() -> None:
    assert evicted_names(policy(deschedule=[TAINTS], nodeSelector="pool=x")) == []


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "Deployment"},
        policy(deschedule=["Nonsense"]),
        policy(deschedule=["LowNodeUtilization"]),
        policy(deschedule=[TAINTS], args={TAINTS: {"excludedTaints": 5}}),
    ],
)
def test_invalid_policy_is_rejected(raw: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_policy(raw)


def test_priority_threshold_may_name_a_priority_class() -> None:
    args = {"DefaultEvictor": {"priorityThreshold": {"name": "high"}}}
    raw = policy(deschedule=[TAINTS], args=args)
    nodes = [node("a", taints=["old:NoSchedule"]), node("b")]
    cluster_view = ClusterView.of(
        nodes, [pod("p", on="a", priority=9), pod("q", on="a", priority=1)], priorities={"high": 5}
    )
    assert [eviction.pod.name for eviction in planned_evictions(read_policy(raw), cluster_view)] == ["q"]
    with pytest.raises(InputError):
        planned_evictions(read_policy(raw), CLUSTER_VIEW)


def metrics_policy(providers: list[dict[str, Any]], resource: str = "cpu", **metrics: Any) -> dict[str, Any]:
    limits = {"thresholds": {resource: 20}, "targetThresholds": {resource: 50}}
    config = [{"name": "LowNodeUtilization", "args": {**limits, "metricsUtilization": metrics}}]
    profile = {
        "name": "main",
        "pluginConfig": config,
        "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
    }
    return {"kind": "DeschedulerPolicy", "profiles": [profile], "metricsProviders": providers}


METRICS_PROVIDERS = [{"source": "KubernetesMetrics"}]


@pytest.mark.parametrize("metrics", [{"source": "KubernetesMetrics"}, {"metricsServer": True}])
def test_policy_may_use_metrics_of_metrics_k8s_io(metrics: dict[str, Any]) -> None:
    assert read_policy(metrics_policy(METRICS_PROVIDERS, **metrics)).uses_metrics
    older = {**metrics_policy([], **metrics), "metricsCollector": {"enabled": True}}
    assert read_policy(older).uses_metrics
    assert not read_policy(metrics_policy([])).uses_metrics


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (
            metrics_policy([{"source": "Prometheus"}], source="Prometheus", prometheus={"query": "q"}),
            "Prometheus is not supported",
        ),
        (metrics_policy([], source="KubernetesMetrics"), "needs an entry in metricsProviders"),
        (metrics_policy(METRICS_PROVIDERS, source="Guess"), "unknown source Guess"),
        (metrics_policy([{"source": "Guess"}]), "unknown source 'Guess'"),
        (metrics_policy([*METRICS_PROVIDERS, *METRICS_PROVIDERS]), "twice"),
        (
            metrics_policy(METRICS_PROVIDERS, source="KubernetesMetrics", metricsServer=True),
            "either the source or metricsServer",
        ),
        (
            metrics_policy(METRICS_PROVIDERS, source="KubernetesMetrics", prometheus={"query": "q"}),
            "belongs to the source Prometheus",
        ),
        (
            metrics_policy(METRICS_PROVIDERS, "nvidia.com/gpu", source="KubernetesMetrics"),
            "there are no metrics of nvidia.com/gpu",
        ),
    ],
)
def test_invalid_metrics_source_is_rejected_with_the_reason(raw: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_policy(raw)
