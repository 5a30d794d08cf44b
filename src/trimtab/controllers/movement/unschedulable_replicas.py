"""Removes replicas that no node of their cluster can run, so that the next decision places them elsewhere."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.work import ResourceBinding, TargetCluster
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import PROBE
from trimtab.controllers.contract import Effect, RecordEvent, Ref, RememberInProcess, Topic, View, controller, never
from trimtab.controllers.movement import state
from trimtab.controllers.movement.freeze import current_freeze
from trimtab.controllers.settings import setting
from trimtab.decide.reschedule_trigger import read_placement

SOURCE = "karmada-descheduler"
INTERVAL_SECONDS = 120
TEMPLATE_HASH = "pod-template-hash"
DESCHEDULED: Topic[Ref, datetime] = Topic("descheduled")


class UnschedulablePod(NamedTuple):
    """A pod that no node can run, and the Deployment it belongs to."""

    namespace: str
    deployment: str
    template: str
    since: datetime


def unschedulable_pods(pods: Iterable[Pod]) -> tuple[UnschedulablePod, ...]:
    """The pods of Deployments that are unschedulable, sorted by the time since when."""
    found = []
    for pod in pods:
        owner = pod.controller
        scheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if owner is None or owner.kind != "ReplicaSet" or pod.spec.node_name or scheduled is None:
            continue
        template = pod.metadata.labels.get(TEMPLATE_HASH, "")
        if (
            scheduled.status == "False"
            and scheduled.reason == "Unschedulable"
            and scheduled.last_transition_time
            and template
        ):
            deployment = owner.name.removesuffix(f"-{template}")
            found.append(UnschedulablePod(pod.namespace, deployment, template, scheduled.last_transition_time))
    return tuple(sorted(found, key=lambda pod: pod.since))


# Probes that find such pods queue it, and nothing else.
@controller(ResourceBinding, writes=["spec.clusters"], predicate=never, resumes=True)
def unschedulable_replicas(binding: ResourceBinding, view: View) -> Iterator[Effect]:
    if not is_descheduled(binding, view) or not is_interval_over(binding, view) or current_freeze(view) is not None:
        return
    reduced = tuple(without_unschedulable(binding, target, view) for target in binding.spec.clusters)
    if reduced == binding.spec.clusters:
        return
    yield state.give_back(binding, reduced)
    yield RememberInProcess(DESCHEDULED, well_known.ref_of(binding), view.steady_now)
    for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
        yield RecordEvent(about, "DescheduleBindingSucceed", format_descheduled(binding.spec.clusters, reduced), SOURCE)


def is_descheduled(binding: ResourceBinding, view: View) -> bool:
    """Only Deployments whose placement follows free capacity; other placements are chosen by users."""
    resource = binding.spec.resource
    text = binding.metadata.annotations.get(well_known.APPLIED_PLACEMENT, "")
    if not setting(view, "descheduler") or not text:
        return False
    if (resource.api_version, resource.kind) != ("apps/v1", "Deployment") or binding.metadata.deletion_timestamp:
        return False
    applied = read_placement(text)
    scheduling = applied.replica_scheduling if applied is not None else None
    if scheduling is None or scheduling.replica_scheduling_type != "Divided":
        return False
    weights = scheduling.weight_preference
    return scheduling.replica_division_preference == "Aggregated" or (
        weights is not None and bool(weights.dynamic_weight)
    )


def is_interval_over(binding: ResourceBinding, view: View) -> bool:
    last = view.recall(DESCHEDULED, well_known.ref_of(binding))
    return last is None or view.steady_now - last >= timedelta(seconds=INTERVAL_SECONDS)


def without_unschedulable(binding: ResourceBinding, target: TargetCluster, view: View) -> TargetCluster:
    """The target without replicas that are unschedulable for too long; never fewer than are ready."""
    item = next((i for i in binding.status.aggregated_status if i.cluster_name == target.name), None)
    ready = int((item.status or {}).get("readyReplicas", 0)) if item is not None and item.status is not None else -1
    unschedulable = count_unschedulable(binding, target.name, view)
    if ready < 0 or ready >= target.replicas or not 0 < unschedulable <= target.replicas:
        return target
    return target.but(replicas=max(target.replicas - unschedulable, ready))


def count_unschedulable(binding: ResourceBinding, cluster: str, view: View) -> int:
    """Number of pods of the newest template that have been unschedulable for too long, according to the last probe."""
    probe = view.recall(PROBE, cluster)
    resource = binding.spec.resource
    pods: list[UnschedulablePod] = [
        pod
        for pod in (probe.unschedulable_pods if probe else ())
        if (pod.namespace, pod.deployment) == (resource.namespace, resource.name)
    ]
    if not pods:
        return 0
    threshold = timedelta(seconds=float(setting(view, "unschedulable-threshold")))
    newest = pods[-1].template
    return sum(pod.template == newest and view.now - pod.since > threshold for pod in pods)


def format_descheduled(before: tuple[TargetCluster, ...], after: tuple[TargetCluster, ...]) -> str:
    lost = {b.name: b.replicas - a.replicas for b, a in zip(before, after, strict=True) if a.replicas < b.replicas}
    listed = ", ".join(f"{replicas} replica(s) in cluster({cluster})" for cluster, replicas in lost.items())
    return f"Binding has been descheduled, {listed}, {sum(lost.values())} total descheduled replica(s)"
