"""The HorizontalPodAutoscaler controller: scales workloads by what the metrics server reports."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.kinds.native.autoscaling import HorizontalPodAutoscaler
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.controllers.autoscaling.pod_use import SYNC_SECONDS, pod_use_of
from trimtab.controllers.contract import (
    Effect,
    Ensure,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    View,
    spec_changed,
)
from trimtab.decide.autoscale import (
    ScalingCondition,
    ScalingDecision,
    ScalingMemory,
    ScalingSpec,
    decide_scale,
    scaling_conditions,
)
from trimtab.simulate.workloads.owned_pods import raw_of, ref_to, update_status
from trimtab.simulate.workloads.registry import workload

MEMORY: Topic[Ref, ScalingMemory] = Topic("scaling")
SOURCE = "horizontal-pod-autoscaler"
OWN_CLUSTER = ("",)


@workload(
    HorizontalPodAutoscaler,
    writes=["status", "Deployment.spec.replicas", "StatefulSet.spec.replicas", "ReplicaSet.spec.replicas"],
    predicate=spec_changed,
)
def horizontal_pod_autoscaler(autoscaler: HorizontalPodAutoscaler, view: View) -> Iterator[Effect]:
    if autoscaler.metadata.deletion_timestamp is not None:
        return
    yield RequeueAfter(SYNC_SECONDS)
    reference, raw = autoscaler.spec.scale_target_ref, raw_of(autoscaler, view)
    target = view.raw(Ref(reference.api_version, reference.kind, autoscaler.namespace, reference.name))
    if target is None:
        text = f"the HPA controller was unable to get the target's current scale: {reference.kind} {reference.name} not found"
        missing = ScalingCondition("AbleToScale", "False", "FailedGetScale", text)
        yield from update_status(raw, with_conditions(dict(raw.get("status") or {}), [missing], view))
        return
    use = pod_use_of(target, OWN_CLUSTER, view)
    yield from use.due
    current = int((target.get("spec") or {}).get("replicas", 1))
    own = ref_to(autoscaler)
    memory = view.recall(MEMORY, own) or ScalingMemory()
    decision = decide_scale(spec_of(autoscaler, raw), current, use.pods, memory, view.now)
    if use.due and not decision.reason:
        return  # what was read before is out of date
    yield RememberInProcess(MEMORY, own, decision.memory)
    if decision.replicas != current:
        scaled = {**target, "spec": {**target["spec"], "replicas": decision.replicas}}
        yield Ensure(scaled, seen=target)
        text = f"New size: {decision.replicas}; reason: {decision.reason}"
        yield RecordEvent(own, "SuccessfulRescale", text, SOURCE)
    yield from update_status(raw, status_of(raw, autoscaler, current, decision, view))


def spec_of(autoscaler: HorizontalPodAutoscaler, raw: Raw) -> ScalingSpec:
    spec = autoscaler.spec
    minimum = 1 if spec.min_replicas is None else spec.min_replicas
    return ScalingSpec(minimum, spec.max_replicas, raw["spec"].get("metrics") or (), raw["spec"].get("behavior"))


def status_of(
    raw: Raw, autoscaler: HorizontalPodAutoscaler, current: int, decision: ScalingDecision, view: View
) -> dict[str, Any]:
    status = dict(raw.get("status") or {})
    status |= {
        "observedGeneration": autoscaler.metadata.generation,
        "currentReplicas": current,
        "desiredReplicas": decision.replicas,
    }
    metrics = [one.current for one in decision.proposals if one.current is not None]
    if metrics:
        status["currentMetrics"] = metrics
    if decision.replicas != current:
        status["lastScaleTime"] = timestamp(view.now)
    return with_conditions(status, scaling_conditions(decision, current, decision.replicas), view)


def with_conditions(status: dict[str, Any], conditions: list[ScalingCondition], view: View) -> dict[str, Any]:
    """The status with these conditions; others stay, and the time of one changes with its status."""
    found = {one["type"]: one for one in status.get("conditions") or ()}
    for new in conditions:
        before = found.get(new.type) or {}
        is_same = before.get("status") == new.status
        since = before.get("lastTransitionTime") if is_same else timestamp(view.now)
        found[new.type] = {**new._asdict(), "lastTransitionTime": since}
    return {**status, "conditions": list(found.values())}
