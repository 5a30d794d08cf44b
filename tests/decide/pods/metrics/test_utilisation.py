import pytest
from pod_builders import node, pod

from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.metrics.utilisation import (
    MetricsUtilization,
    NodeUsage,
    measured_usage,
    metrics_error,
    nodes_above,
    nodes_below,
    requested_usage,
    resources_of,
    schedulable_mask,
    thresholds_error,
)

VIEW = ClusterView.of([node("a", cpu="4"), node("b", cpu="4", cordoned=True)], [pod("p", on="a", cpu="3")])


def test_nodes_are_compared_with_thresholds_in_percent() -> None:
    found = requested_usage(VIEW, resources_of({"cpu": 50}))
    assert found.percent("cpu").tolist() == [75.0, 0.0]
    assert nodes_below(found, {"cpu": 75, "pods": 20}).tolist() == [True, True]
    assert nodes_below(found, {"cpu": 74}).tolist() == [False, True]
    assert nodes_above(found, {"cpu": 75, "pods": 5}).tolist() == [True, False]
    assert schedulable_mask(VIEW).tolist() == [True, False]


def test_measured_usage_replaces_requests_and_needs_metrics_of_every_node() -> None:
    amounts = {"cpu": 1000, "memory": 1}
    found = measured_usage(VIEW, resources_of({}), UsageMetrics(nodes={"a": amounts, "b": amounts}))
    assert isinstance(found, NodeUsage)
    assert found.used["cpu"].tolist() == [1000, 1000]
    assert found.used["pods"].tolist() == [1, 0]
    assert "b" in str(measured_usage(VIEW, resources_of({}), UsageMetrics(nodes={"a": amounts})))
    assert isinstance(measured_usage(VIEW, resources_of({}), None), str)


@pytest.mark.parametrize(
    ("limits", "is_valid"), [({"cpu": 0.0}, True), ({"cpu": 100.0}, True), ({"cpu": 101.0}, False), ({}, False)]
)
def test_thresholds_are_percentages(limits: dict[str, float], is_valid: bool) -> None:
    assert (thresholds_error(limits, "thresholds") == "") == is_valid


def test_metrics_cover_only_basic_resources() -> None:
    metrics = MetricsUtilization(source="KubernetesMetrics")
    assert metrics_error(metrics, {"cpu": 1}) == ""
    assert metrics_error(metrics, {"nvidia.com/gpu": 1})
    assert metrics_error(None, {"nvidia.com/gpu": 1}) == ""
