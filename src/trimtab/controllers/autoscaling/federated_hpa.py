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
from trimtab.decide.autoscale import ScalingDecision, ScalingMemory, ScalingSpec, decide_scale
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
    if target is None:
        yield from report_missing_target(autoscaler, view)
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


def target_of(autoscaler: FederatedHPA, view: View) -> Target | None:
    """The template and its clusters; None while it does not exist or is not scheduled."""
    reference = autoscaler.spec.scale_target_ref
    template = view.raw(Ref(reference.api_version, reference.kind, autoscaler.namespace, reference.name))
    binding = view.get(ResourceBinding, autoscaler.namespace, binding_name(reference.kind, reference.name))
    if template is None or binding is None or not binding.spec.clusters:
        return None
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


def report_missing_target(autoscaler: FederatedHPA, view: View) -> Iterator[Effect]:
    reference = autoscaler.spec.scale_target_ref
    text = f"{reference.kind} {reference.name} does not exist, or is not scheduled to a cluster"
    yield from write_status(autoscaler, autoscaler.status, [("AbleToScale", "False", "FailedGetScale", text)], view)


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
    yield from write_status(autoscaler, status, conditions_of(decision, current, replicas), view)


def conditions_of(decision: ScalingDecision, current: int, replicas: int) -> list[tuple[str, str, str, str]]:
    """The conditions as (type, status, reason, message)."""
    if replicas != current:
        found = [("AbleToScale", "True", "SucceededRescale", f"the target has a new size: {replicas}")]
    else:
        found = [("AbleToScale", "True", "ReadyForNewScale", "the recommended size matches the current size")]
    if current == 0:
        return [*found, ("ScalingActive", "False", "ScalingDisabled", "the target has no replicas")]
    faults = [one.fault for one in decision.proposals if one.fault]
    if faults and len(faults) == len(decision.proposals):
        found.append(("ScalingActive", "False", "FailedGetResourceMetric", faults[0]))
    else:
        found.append(("ScalingActive", "True", "ValidMetricFound", "the number of replicas follows from the metrics"))
    if decision.limit:
        text = "the maximum applies" if decision.limit == "TooManyReplicas" else "the minimum applies"
        found.append(("ScalingLimited", "True", decision.limit, text))
    else:
        found.append(("ScalingLimited", "False", "DesiredWithinRange", "the number is within the limits"))
    return found


def write_status(
    autoscaler: FederatedHPA, status: FederatedHPAStatus, conditions: list[tuple[str, str, str, str]], view: View
) -> Iterator[Effect]:
    now = view.now.replace(microsecond=0)
    for type_, state, reason, message in conditions:
        condition = Condition(type=type_, status=state, reason=reason, message=message, last_transition_time=now)
        status = status.but(conditions=with_condition(status.conditions, condition))
    if status != autoscaler.status:
        yield autoscaler.but(status=status)
