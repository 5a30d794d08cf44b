"""FederatedHPA: scales a template by the metrics of its pods in all clusters."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from trimtab.api.kinds.autoscaling import FederatedHPA, FederatedHPAStatus
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Condition, Raw
from trimtab.controllers import well_known
from trimtab.controllers.autoscaling.pod_use import SYNC_SECONDS, pod_use_of
from trimtab.controllers.conditions import is_condition_true, with_condition
from trimtab.controllers.contract import (
    Effect,
    Ensure,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    View,
    controller,
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
from trimtab.interpret.names import binding_name

SOURCE = "federatedHPA-controller"
MEMORY: Topic[Ref, ScalingMemory] = Topic("federated scaling")


class Target(NamedTuple):
    """The scaled template, and where it runs."""

    template: Raw
    replicas: int
    clusters: tuple[str, ...]
    copies: int
    """How many clusters have all replicas: 1 if they are divided."""


@controller(FederatedHPA, writes=["status"], predicate=spec_changed)
def federated_hpa(autoscaler: FederatedHPA, view: View) -> Iterator[Effect]:
    if autoscaler.metadata.deletion_timestamp is not None:
        return
    yield RequeueAfter(SYNC_SECONDS)
    target = target_of(autoscaler, view)
    if isinstance(target, ScalingCondition):
        yield from write_status(autoscaler, autoscaler.status, [target], view)
        return
    use = pod_use_of(target.template, filter(partial(is_ready, view), target.clusters), view)
    yield from use.due
    own = well_known.ref_of(autoscaler)
    memory = view.recall(MEMORY, own) or ScalingMemory()
    spec = autoscaler.spec
    wanted = ScalingSpec(
        (1 if spec.min_replicas is None else spec.min_replicas) * target.copies,
        spec.max_replicas * target.copies,
        spec.metrics,
        spec.behavior,
    )
    decision = decide_scale(wanted, target.replicas * target.copies, use.pods, memory, view.now)
    replicas = -(-decision.replicas // target.copies)
    if use.due and not decision.reason:
        return  # what was read before is out of date
    yield RememberInProcess(MEMORY, own, decision.memory)
    if replicas != target.replicas:
        scaled = {**target.template, "spec": {**target.template["spec"], "replicas": replicas}}
        yield Ensure(scaled, seen=target.template)
        text = f"New size: {replicas}; reason: {decision.reason}"
        yield RecordEvent(own, "SuccessfulRescale", text, SOURCE)
    yield from report_decision(autoscaler, target.replicas, replicas, decision, view)


def target_of(autoscaler: FederatedHPA, view: View) -> Target | ScalingCondition:
    """The template and its clusters, or why it cannot be scaled: it does not exist or is not scheduled."""
    reference = autoscaler.spec.scale_target_ref
    named = f"{reference.kind} {reference.name}"
    template = view.raw(Ref(reference.api_version, reference.kind, autoscaler.namespace, reference.name))
    if template is None:
        text = f"the HPA controller was unable to get the target reference object: {named} not found"
        return ScalingCondition("AbleToScale", "False", "FailedGetScaleTargetRef", text)
    binding = view.get(ResourceBinding, autoscaler.namespace, binding_name(reference.kind, reference.name))
    if binding is None:
        text = f"the HPA controller was unable to get the binding by scaleTargetRef: {named} has no binding"
        return ScalingCondition("AbleToScale", "False", "FailedGetBinding", text)
    if not binding.spec.clusters:
        text = f"the HPA controller was unable to get the target clusters from binding: {named} is not scheduled"
        return ScalingCondition("AbleToScale", "False", "FailedGetTargetClusters", text)
    clusters = tuple(target.name for target in binding.spec.clusters)
    replicas = (template.get("spec") or {}).get("replicas")
    return Target(
        template, 1 if replicas is None else int(replicas), clusters, len(clusters) if is_duplicated(binding) else 1
    )


def is_ready(view: View, name: str) -> bool:
    """Whether the cluster can be read: one that cannot must not keep the others from being scaled."""
    cluster = view.get(Cluster, "", name)
    return cluster is not None and is_condition_true(cluster.status.conditions, "Ready")


def is_duplicated(binding: ResourceBinding) -> bool:
    placement = binding.spec.placement
    scheduling = placement.replica_scheduling if placement is not None else None
    return scheduling is None or scheduling.replica_scheduling_type != "Divided"


def report_decision(
    autoscaler: FederatedHPA, current: int, replicas: int, decision: ScalingDecision, view: View
) -> Iterator[Effect]:
    status = autoscaler.status.but(
        observed_generation=autoscaler.metadata.generation,
        current_replicas=current,
        desired_replicas=replicas,
        current_metrics=tuple(one.current for one in decision.proposals if one.current is not None)
        or autoscaler.status.current_metrics,
    )
    if replicas != current:
        status = status.but(last_scale_time=view.now.replace(microsecond=0))
    yield from write_status(autoscaler, status, scaling_conditions(decision, current, replicas), view)


def write_status(
    autoscaler: FederatedHPA, status: FederatedHPAStatus, conditions: list[ScalingCondition], view: View
) -> Iterator[Effect]:
    now = view.now.replace(microsecond=0)
    for type_, state, reason, message in conditions:
        condition = Condition(type=type_, status=state, reason=reason, message=message, last_transition_time=now)
        status = status.but(conditions=with_condition(status.conditions, condition))
    if status != autoscaler.status:
        yield autoscaler.but(status=status)
