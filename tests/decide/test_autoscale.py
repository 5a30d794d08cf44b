"""The number of replicas by metrics, as HorizontalPodAutoscaler v2 computes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trimtab.decide.autoscale import (
    MetricProposal,
    PodSample,
    ScaleEvent,
    ScalingDecision,
    ScalingMemory,
    ScalingSpec,
    combine,
    decide_scale,
    limit_rate,
    longest_window,
    propose,
    scaling_conditions,
    stabilize,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def cpu(utilization: int | None = None, **target: str) -> dict[str, Any]:
    wanted = {"averageUtilization": utilization} if utilization is not None else target
    return {"type": "Resource", "resource": {"name": "cpu", "target": wanted}}


def pods(*usage: int | None, request: int = 100, ready: bool = True) -> list[PodSample]:
    return [
        PodSample(f"p{n}", {"cpu": request}, {"cpu": used} if used is not None else None, ready)
        for n, used in enumerate(usage)
    ]


@pytest.mark.parametrize(
    ("usage", "target", "expected"),
    [
        ((100, 100, 100), 50, 6),
        ((30, 30, 30), 60, 2),
        ((54, 54, 54), 50, 3),  # within the tolerance of 10 %
        ((56, 56, 56), 50, 4),
    ],
)
def test_replicas_follow_the_ratio_of_use_and_target(usage: tuple[int, ...], target: int, expected: int) -> None:
    (proposal,) = propose([cpu(target)], pods(*usage), len(usage))
    assert proposal.replicas == expected


def test_an_average_value_needs_no_requests() -> None:
    (proposal,) = propose([cpu(averageValue="50m")], pods(100, 100, request=0), 2)
    assert (proposal.replicas, proposal.fault) == (4, "")
    (proposal,) = propose([cpu(50)], pods(100, 100, request=0), 2)
    assert "no request" in proposal.fault


def test_a_pod_without_metrics_counts_as_full_when_shrinking_and_as_idle_when_growing() -> None:
    assert propose([cpu(60)], pods(30, 30, None), 3)[0].replicas == 2  # (30 + 30 + 60) / 180 of three pods
    assert propose([cpu(50)], pods(100, 100, None), 3)[0].replicas == 4  # 200 / 150 of three pods
    assert propose([cpu(50)], pods(70, None), 2)[0].replicas == 2  # the direction would change


def test_a_pod_that_is_not_ready_does_not_let_the_workload_grow() -> None:
    sample = [*pods(100), PodSample("new", {"cpu": 100}, {"cpu": 400}, is_ready=False)]
    assert propose([cpu(50)], sample, 2)[0].replicas == 2
    deleted = PodSample("old", {"cpu": 100}, {"cpu": 400}, is_counted=False)
    assert propose([cpu(50)], [*pods(50), deleted], 1)[0].replicas == 1


def test_a_metric_without_a_value_prevents_shrinking_only() -> None:
    unknown = MetricProposal(3, fault="no pod has metrics yet")
    assert combine([MetricProposal(2), MetricProposal(4)], 3) == 4
    assert combine([MetricProposal(2), unknown], 3) == 3
    assert combine([MetricProposal(5), unknown], 3) == 5
    assert combine([unknown], 3) is None


def test_shrinking_waits_for_the_largest_recent_recommendation() -> None:
    recent = [ScaleEvent(NOW - timedelta(seconds=100), 6), ScaleEvent(NOW - timedelta(seconds=400), 9)]
    assert stabilize(None, 2, 8, recent, NOW) == 6
    assert stabilize({"scaleDown": {"stabilizationWindowSeconds": 0}}, 2, 8, recent, NOW) == 2


def test_growing_waits_for_the_smallest_recent_recommendation_only_when_asked() -> None:
    recent = [ScaleEvent(NOW - timedelta(seconds=10), 3)]
    assert stabilize(None, 6, 2, recent, NOW) == 6
    assert stabilize({"scaleUp": {"stabilizationWindowSeconds": 60}}, 6, 2, recent, NOW) == 3


@pytest.mark.parametrize(
    ("behavior", "replicas", "wanted", "expected"),
    [
        (None, 2, 20, 6),  # four pods
        (None, 10, 50, 20),  # twice as many
        (None, 10, 1, 1),
        ({"scaleDown": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}, 10, 1, 8),
        ({"scaleDown": {"selectPolicy": "Disabled"}}, 10, 1, 10),
        (
            {
                "scaleUp": {
                    "selectPolicy": "Min",
                    "policies": [
                        {"type": "Pods", "value": 1, "periodSeconds": 60},
                        {"type": "Percent", "value": 50, "periodSeconds": 60},
                    ],
                }
            },
            10,
            50,
            11,
        ),
    ],
)
def test_policies_limit_the_rate(behavior: dict[str, Any] | None, replicas: int, wanted: int, expected: int) -> None:
    assert limit_rate(behavior, wanted, replicas, [], NOW) == expected


def test_earlier_changes_of_the_period_count() -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}
    done = [ScaleEvent(NOW - timedelta(seconds=30), 3), ScaleEvent(NOW - timedelta(seconds=90), 5)]
    assert limit_rate(behavior, 20, 8, done, NOW) == 9
    assert longest_window(behavior) == timedelta(seconds=300)


def decide(replicas: int, *usage: int) -> ScalingDecision:
    return decide_scale(ScalingSpec(2, 10, (cpu(50),)), replicas, pods(*usage), ScalingMemory(), NOW)


def test_limits_come_before_metrics() -> None:
    assert decide(1).replicas == 2
    assert decide(12).replicas == 10
    assert decide(0).replicas == 0


def test_decision_names_its_reason_and_its_limit() -> None:
    decision = decide(3, 100, 100, 100)
    assert (decision.replicas, decision.reason, decision.limit) == (
        6,
        "cpu resource utilization (percentage of request) above target",
        "",
    )
    assert decide(8, *([200] * 8)).limit == "TooManyReplicas"
    assert decide(3, 50, 50, 50).reason == ""


def test_memory_keeps_recommendations_and_changes_of_the_window() -> None:
    old = ScalingMemory((ScaleEvent(NOW - timedelta(hours=1), 9),), (ScaleEvent(NOW - timedelta(hours=1), 9),))
    decision = decide_scale(ScalingSpec(1, 10, (cpu(50),)), 3, pods(100, 100, 100), old, NOW)
    assert decision.memory == ScalingMemory((ScaleEvent(NOW, 6),), (ScaleEvent(NOW, 3),))


def test_size_at_the_start_counts_as_a_recommendation() -> None:
    spec = ScalingSpec(1, 10, [cpu(50)])
    first = decide_scale(spec, 4, pods(10, 10, 10, 10), ScalingMemory(), NOW)
    assert (first.replicas, first.delay) == (4, "ScaleDownStabilized")
    later = decide_scale(spec, 4, pods(10, 10, 10, 10), first.memory, NOW + timedelta(seconds=301))
    assert later.replicas == 1


@pytest.mark.parametrize(
    ("usage", "maximum", "expected"),
    [
        ((50, 50), 9, ["ReadyForNewScale", "ValidMetricFound", "DesiredWithinRange"]),
        ((100, 100), 9, ["SucceededRescale", "ValidMetricFound", "DesiredWithinRange"]),
        ((200, 200), 3, ["SucceededRescale", "ValidMetricFound", "TooManyReplicas"]),
        ((600, 600), 40, ["SucceededRescale", "ValidMetricFound", "ScaleUpLimit"]),
        ((10, 10), 9, ["ScaleDownStabilized", "ValidMetricFound", "DesiredWithinRange"]),
        ((None, None), 9, ["ReadyForNewScale", "FailedGetResourceMetric"]),
        ((50, 50), 1, ["SucceededRescale"]),
        ((), 9, ["SucceededGetScale", "ScalingDisabled"]),
    ],
)
def test_conditions_have_the_reasons_of_kubernetes(
    usage: tuple[int | None, ...], maximum: int, expected: list[str]
) -> None:
    decision = decide_scale(ScalingSpec(1, maximum, [cpu(50)]), len(usage), pods(*usage), ScalingMemory(), NOW)
    conditions = scaling_conditions(decision, len(usage), decision.replicas)
    assert [one.reason for one in conditions] == expected
    assert all(one.message for one in conditions)


def test_conditions_name_the_metric() -> None:
    for target, words in (
        (cpu(50), "cpu resource utilization (percentage of request)"),
        (cpu(averageValue="9m"), "cpu resource"),
    ):
        decision = decide_scale(ScalingSpec(1, 9, [target]), 2, pods(50, 50), ScalingMemory(), NOW)
        active = scaling_conditions(decision, 2, decision.replicas)[1]
        assert active.message == f"the HPA was able to successfully calculate a replica count from {words}"
