"""Replicas that no node of their cluster takes are given back, so that the next decision can place them elsewhere."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.work import ResourceBinding, TargetCluster
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import Probe
from trimtab.controllers.contract import Note, Remember, View, Wish, controller, never

SOURCE = "karmada-descheduler"
INTERVAL_SECONDS = 120
STUCK_SECONDS = 300
TEMPLATE_HASH = "pod-template-hash"


class Stuck(NamedTuple):
    """A pod that waits for a node, and for whom."""

    namespace: str
    deployment: str
    template: str
    since: datetime


def stuck_pods(pods: Iterable[Pod]) -> tuple[Stuck, ...]:
    """The pods of Deployments that no node takes, in order of the time since when."""
    found = []
    for pod in pods:
        owner = pod.controller
        verdict = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if owner is None or owner.kind != "ReplicaSet" or pod.spec.node_name or verdict is None:
            continue
        template = pod.metadata.labels.get(TEMPLATE_HASH, "")
        if (
            verdict.status == "False"
            and verdict.reason == "Unschedulable"
            and verdict.last_transition_time
            and template
        ):
            deployment = owner.name.removesuffix(f"-{template}")
            found.append(Stuck(pod.namespace, deployment, template, verdict.last_transition_time))
    return tuple(sorted(found, key=lambda stuck: stuck.since))


@controller(ResourceBinding, writes=["spec.clusters"], changed=never)  # only a probe that finds stuck pods wakes it
def deschedule(binding: ResourceBinding, view: View) -> Iterator[Wish]:
    if not is_watched(binding, view) or not is_time(binding, view):
        return
    reduced = tuple(given_back(binding, target, view) for target in binding.spec.clusters)
    if reduced == binding.spec.clusters:
        return
    yield binding.but(spec=binding.spec.but(clusters=reduced))
    yield Remember("descheduled", well_known.ref_of(binding), view.now)
    for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
        yield Note(about, "DescheduleBindingSucceed", told(binding.spec.clusters, reduced), SOURCE)


def is_watched(binding: ResourceBinding, view: View) -> bool:
    """Deployments whose placement follows free room; for the others, where they go is not ours to doubt."""
    resource = binding.spec.resource
    text = binding.metadata.annotations.get(well_known.APPLIED_PLACEMENT, "")
    if not well_known.setting(view, "descheduler", default=view.profile.name == "trimtab") or not text:
        return False
    if (resource.api_version, resource.kind) != ("apps/v1", "Deployment") or binding.metadata.deletion_timestamp:
        return False
    scheduling = msgspec.json.decode(text, type=Placement, strict=False).replica_scheduling
    if scheduling is None or scheduling.replica_scheduling_type != "Divided":
        return False
    weights = scheduling.weight_preference
    return scheduling.replica_division_preference == "Aggregated" or (
        weights is not None and bool(weights.dynamic_weight)
    )


def is_time(binding: ResourceBinding, view: View) -> bool:
    last: datetime | None = view.recall("descheduled", well_known.ref_of(binding))
    return last is None or view.now - last >= timedelta(seconds=INTERVAL_SECONDS)


def given_back(binding: ResourceBinding, target: TargetCluster, view: View) -> TargetCluster:
    """The target without what has been stuck there for long; never fewer than are ready."""
    item = next((i for i in binding.status.aggregated_status if i.cluster_name == target.name), None)
    ready = int((item.status or {}).get("readyReplicas", 0)) if item is not None and item.status is not None else -1
    stuck = stuck_for_long(binding, target.name, view)
    if ready < 0 or ready >= target.replicas or not 0 < stuck <= target.replicas:
        return target
    return target.but(replicas=max(target.replicas - stuck, ready))


def stuck_for_long(binding: ResourceBinding, cluster: str, view: View) -> int:
    """How many pods of the newest template have waited too long, as the last probe saw it."""
    probe: Probe | None = view.recall("probe", cluster)
    resource = binding.spec.resource
    mine: list[Stuck] = [
        pod
        for pod in (probe.stuck if probe else ())
        if (pod.namespace, pod.deployment) == (resource.namespace, resource.name)
    ]
    if not mine:
        return 0
    patience = timedelta(seconds=float(well_known.setting(view, "unschedulable-threshold", default=STUCK_SECONDS)))
    newest = mine[-1].template
    return sum(pod.template == newest and view.now - pod.since > patience for pod in mine)


def told(before: tuple[TargetCluster, ...], after: tuple[TargetCluster, ...]) -> str:
    lost = {b.name: b.replicas - a.replicas for b, a in zip(before, after, strict=True) if a.replicas < b.replicas}
    listed = ", ".join(f"{replicas} replica(s) in cluster({cluster})" for cluster, replicas in lost.items())
    return f"Binding has been descheduled, {listed}, {sum(lost.values())} total descheduled replica(s)"
