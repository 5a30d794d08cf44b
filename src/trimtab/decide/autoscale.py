"""How many replicas a workload should have by its metrics: the rules of HorizontalPodAutoscaler v2.

The metrics are resource metrics of pods. Pods that do not report yet are counted as if they would prevent the change: as
full when the workload would shrink, as idle when it would grow.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.quantity import int_value, milli_value
from trimtab.api.value import Raw

TOLERANCE = 0.1
DOWNSCALE_STABILIZATION_SECONDS = 300
PERCENT = 100
DEFAULT_POLICIES: Mapping[str, tuple[Raw, ...]] = {
    "scaleUp": (
        {"type": "Percent", "value": 100, "periodSeconds": 15},
        {"type": "Pods", "value": 4, "periodSeconds": 15},
    ),
    "scaleDown": ({"type": "Percent", "value": 100, "periodSeconds": 15},),
}
DEFAULT_METRICS: tuple[Raw, ...] = (
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
)


class PodSample(NamedTuple):
    """One pod of the workload: CPU in millicores, memory in bytes."""

    name: str
    requests: Mapping[str, int]
    usage: Mapping[str, int] | None
    """None while the pod has no metrics."""
    is_ready: bool = True
    is_counted: bool = True
    """Whether it is neither failed nor being deleted."""


class MetricProposal(NamedTuple):
    """What one metric proposes, and its current value for the status; `fault` says why it proposes nothing."""

    replicas: int
    current: Raw | None = None
    fault: str = ""
    name: str = ""


class ScaleEvent(NamedTuple):
    """A change of the number of replicas, or the number that was recommended at a time."""

    at: datetime
    replicas: int


def propose(metrics: Sequence[Raw], pods: Sequence[PodSample], replicas: int) -> list[MetricProposal]:
    """The proposals of all metrics of a spec."""
    return [propose_by_metric(metric, pods, replicas) for metric in metrics or DEFAULT_METRICS]


def propose_by_metric(metric: Raw, pods: Sequence[PodSample], replicas: int) -> MetricProposal:
    if metric.get("type") != "Resource":
        return MetricProposal(replicas, fault=f"metrics of type {metric.get('type')} are not collected")
    source = metric.get("resource") or {}
    resource, target = str(source.get("name", "")), source.get("target") or {}
    counted = [pod for pod in pods if pod.is_counted]
    measured = [pod for pod in counted if pod.usage is not None and (pod.is_ready or resource != "cpu")]
    if not measured:
        return MetricProposal(replicas, fault="no pod has metrics yet")
    utilization = target.get("averageUtilization")
    if utilization is not None:
        if any(not pod.requests.get(resource) for pod in counted):
            return MetricProposal(replicas, fault=f"a container has no request for {resource}")
        goals = {pod.name: pod.requests[resource] * int(utilization) / PERCENT for pod in counted}
    else:
        goal = _amount(resource, target.get("averageValue", "0"))
        goals = {pod.name: float(goal) for pod in counted}
    if not all(goals.values()):
        return MetricProposal(replicas, fault="the target of the metric is 0")
    usage = {pod.name: (pod.usage or {}).get(resource, 0) for pod in measured}
    waiting = [pod for pod in counted if pod.name not in usage]
    wanted = _replicas_for(usage, goals, waiting, replicas)
    name = f"{resource} resource" + ("" if utilization is None else " utilization (percentage of request)")
    return MetricProposal(wanted, _current_value(resource, usage, counted), name=name)


def _amount(resource: str, text: str) -> int:
    return milli_value(text) if resource == "cpu" else int_value(text)


def _replicas_for(
    usage: Mapping[str, int], goals: Mapping[str, float], waiting: Sequence[PodSample], replicas: int
) -> int:
    ratio = _ratio(usage, goals)
    if not waiting:
        return replicas if abs(ratio - 1) <= TOLERANCE else math.ceil(ratio * len(usage))
    # A pod that is not ready keeps the workload from growing, one without metrics also from shrinking.
    missing = {pod.name: goals[pod.name] if pod.usage is None and ratio < 1 else 0.0 for pod in waiting}
    if ratio < 1:
        missing = {name: goal for name, goal in missing.items() if goal}
    corrected = {**usage, **missing}
    new_ratio = _ratio(corrected, goals)
    if abs(new_ratio - 1) <= TOLERANCE or (ratio < 1) is not (new_ratio < 1):
        return replicas
    wanted = math.ceil(new_ratio * len(corrected))
    return replicas if (new_ratio < 1) is (wanted > replicas) else wanted


def _ratio(usage: Mapping[str, float], goals: Mapping[str, float]) -> float:
    return sum(usage.values()) / sum(goals[name] for name in usage)


def _current_value(resource: str, usage: Mapping[str, int], pods: Iterable[PodSample]) -> Raw:
    total, requested = sum(usage.values()), sum(pod.requests.get(resource, 0) for pod in pods if pod.name in usage)
    average = total // len(usage)
    current: Raw = {"averageValue": f"{average}m" if resource == "cpu" else str(average)}
    if requested:
        current["averageUtilization"] = total * PERCENT // requested
    return {"type": "Resource", "resource": {"name": resource, "current": current}}


def combine(proposals: Sequence[MetricProposal], replicas: int) -> int | None:
    """The largest proposal; None without one. A metric without a value prevents that the workload shrinks."""
    valid = [one.replicas for one in proposals if not one.fault]
    if not valid:
        return None
    return max(valid) if len(valid) == len(proposals) else max(replicas, *valid)


def stabilize(
    behavior: Raw | None, recommended: int, replicas: int, recommendations: Sequence[ScaleEvent], now: datetime
) -> int:
    """The recommendation, delayed: the smallest recent one when growing, the largest recent one when shrinking."""
    up = [one.replicas for one in recommendations if now - one.at < _window(behavior, "scaleUp", 0)]
    down = [
        one.replicas
        for one in recommendations
        if now - one.at < _window(behavior, "scaleDown", DOWNSCALE_STABILIZATION_SECONDS)
    ]
    lower, upper = min([recommended, *up]), max([recommended, *down])
    return max(min(replicas, upper), lower)


def longest_window(behavior: Raw | None) -> timedelta:
    """How long recommendations and changes matter."""
    windows = [
        _window(behavior, "scaleUp", 0),
        _window(behavior, "scaleDown", DOWNSCALE_STABILIZATION_SECONDS),
    ]
    periods = [policy.get("periodSeconds", 0) for side in DEFAULT_POLICIES for policy in _policies(behavior, side)]
    return max([*windows, timedelta(seconds=max([0, *periods]))])


def _window(behavior: Raw | None, side: str, default: int) -> timedelta:
    rules = (behavior or {}).get(side) or {}
    seconds = rules.get("stabilizationWindowSeconds")
    return timedelta(seconds=default if seconds is None else int(seconds))


def _policies(behavior: Raw | None, side: str) -> Sequence[Raw]:
    return ((behavior or {}).get(side) or {}).get("policies") or DEFAULT_POLICIES[side]


def limit_rate(behavior: Raw | None, wanted: int, replicas: int, changes: Sequence[ScaleEvent], now: datetime) -> int:
    """The wanted number within what the policies allow per period. `changes` has the differences made so far."""
    if wanted == replicas:
        return wanted
    is_up = wanted > replicas
    side = "scaleUp" if is_up else "scaleDown"
    choice = ((behavior or {}).get(side) or {}).get("selectPolicy") or "Max"
    if choice == "Disabled":
        return replicas
    limits = []
    for policy in _policies(behavior, side):
        since = now - timedelta(seconds=int(policy.get("periodSeconds", 0)))
        recent = [one.replicas for one in changes if one.at > since]
        done = sum(one for one in recent if (one > 0) is is_up)
        start, amount = replicas - done, int(policy.get("value", 0))
        if policy.get("type") == "Pods":
            limits.append(start + amount if is_up else start - amount)
        elif is_up:
            limits.append(math.ceil(start * (1 + amount / PERCENT)))
        else:
            limits.append(math.floor(start * (1 - amount / PERCENT)))
    widest = max(limits) if (choice == "Max") is is_up else min(limits)
    return min(wanted, max(widest, replicas)) if is_up else max(wanted, min(widest, replicas))


class ScalingSpec(NamedTuple):
    """What the autoscaler asks for: the limits, and metrics and behaviour as in autoscaling/v2."""

    minimum: int
    maximum: int
    metrics: Sequence[Raw] = ()
    behavior: Raw | None = None


class ScalingMemory(NamedTuple):
    """What was recommended and changed recently."""

    recommendations: tuple[ScaleEvent, ...] = ()
    changes: tuple[ScaleEvent, ...] = ()


class ScalingDecision(NamedTuple):
    replicas: int
    reason: str
    """Why the number changes; empty when it stays."""
    proposals: tuple[MetricProposal, ...]
    memory: ScalingMemory
    limit: str = ""
    """The reason when a limit applies: `TooManyReplicas`, `TooFewReplicas`, `ScaleUpLimit` or `ScaleDownLimit`."""
    delay: str = ""
    """`ScaleUpStabilized` or `ScaleDownStabilized` when recent recommendations apply instead of this one."""


def decide_scale(
    spec: ScalingSpec, replicas: int, pods: Sequence[PodSample], memory: ScalingMemory, now: datetime
) -> ScalingDecision:
    """The number of replicas that the workload should have now; 0 replicas switch the autoscaler off."""
    if replicas == 0:
        return ScalingDecision(0, "", (), memory)
    if replicas > spec.maximum:
        return _change(spec.maximum, "Current number of replicas above Spec.MaxReplicas", (), memory, replicas, now)
    if replicas < spec.minimum:
        return _change(spec.minimum, "Current number of replicas below Spec.MinReplicas", (), memory, replicas, now)
    proposals = tuple(propose(spec.metrics, pods, replicas))
    proposed = combine(proposals, replicas)
    if proposed is None:
        return ScalingDecision(replicas, "", proposals, memory)
    kept = now - longest_window(spec.behavior)
    # the size at the start counts as a recommendation, so that a start does not shrink a workload at once
    recent = tuple(one for one in memory.recommendations or (ScaleEvent(now, replicas),) if one.at > kept)
    memory = ScalingMemory((*recent, ScaleEvent(now, proposed)), tuple(one for one in memory.changes if one.at > kept))
    stable = stabilize(spec.behavior, proposed, replicas, recent, now)
    allowed = limit_rate(spec.behavior, stable, replicas, memory.changes, now)
    bounded = max(spec.minimum, min(spec.maximum, allowed))
    decision = ScalingDecision(replicas, "", proposals, memory)
    if bounded != replicas:
        reason = "All metrics below target" if bounded < replicas else f"{metric_name(proposals)} above target"
        decision = _change(bounded, reason, proposals, memory, replicas, now)
    delay = "" if stable == proposed else "ScaleDownStabilized" if stable > proposed else "ScaleUpStabilized"
    return decision._replace(limit=_limit_of(stable, allowed, bounded), delay=delay)


def _limit_of(stable: int, allowed: int, bounded: int) -> str:
    """The limit that keeps the number from being the stable recommendation."""
    if bounded != allowed:
        return "TooFewReplicas" if bounded > allowed else "TooManyReplicas"
    return "" if allowed == stable else "ScaleUpLimit" if allowed < stable else "ScaleDownLimit"


def metric_name(proposals: Sequence[MetricProposal]) -> str:
    """The metric with the largest proposal, in the words of Kubernetes; empty without one."""
    valid = [one for one in proposals if one.current]
    return max(valid, key=lambda one: one.replicas).name if valid else ""


def _change(
    wanted: int, reason: str, proposals: tuple[MetricProposal, ...], memory: ScalingMemory, replicas: int, now: datetime
) -> ScalingDecision:
    changes = (*memory.changes, ScaleEvent(now, wanted - replicas))
    return ScalingDecision(wanted, reason, proposals, memory._replace(changes=changes))


class ScalingCondition(NamedTuple):
    """A condition of an autoscaler."""

    type: str
    status: str
    reason: str
    message: str


LIMIT_MESSAGES = {
    "": "the desired count is within the acceptable range",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
}
DELAY_MESSAGES = {
    "ScaleDownStabilized": (
        "recent recommendations were higher than current one, applying the highest recent recommendation"
    ),
    "ScaleUpStabilized": "recent recommendations were lower than current one, applying the lowest recent recommendation",
}


def scaling_conditions(decision: ScalingDecision, current: int, replicas: int) -> list[ScalingCondition]:
    """The conditions of an autoscaler after a decision, as Kubernetes has them; `replicas` is what it wants now."""
    found = []
    if replicas != current:
        text = f"the HPA controller was able to update the target scale to {replicas}"
        found.append(ScalingCondition("AbleToScale", "True", "SucceededRescale", text))
    elif decision.delay:
        found.append(ScalingCondition("AbleToScale", "True", decision.delay, DELAY_MESSAGES[decision.delay]))
    elif decision.proposals:
        text = "recommended size matches current size"
        found.append(ScalingCondition("AbleToScale", "True", "ReadyForNewScale", text))
    else:
        text = "the HPA controller was able to get the target's current scale"
        found.append(ScalingCondition("AbleToScale", "True", "SucceededGetScale", text))
    if current == 0:
        text = "scaling is disabled since the replica count of the target is zero"
        return [*found, ScalingCondition("ScalingActive", "False", "ScalingDisabled", text)]
    faults = [one.fault for one in decision.proposals if one.fault]
    if faults and len(faults) == len(decision.proposals):
        text = f"the HPA was unable to compute the replica count: {faults[0]}"
        return [*found, ScalingCondition("ScalingActive", "False", "FailedGetResourceMetric", text)]
    if decision.proposals:
        text = f"the HPA was able to successfully calculate a replica count from {metric_name(decision.proposals)}"
        found.append(ScalingCondition("ScalingActive", "True", "ValidMetricFound", text))
        state = ("True", decision.limit) if decision.limit else ("False", "DesiredWithinRange")
        found.append(ScalingCondition("ScalingLimited", *state, LIMIT_MESSAGES[decision.limit]))
    return found
