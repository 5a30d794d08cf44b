"""The controllers of ReplicaSets and ReplicationControllers: they keep the wanted number of pods of one template."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from trimtab.api.kinds.native.apps import ReplicaSet, ReplicationController
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.controllers.contract import Delete, Effect, Ensure, RequeueAfter, View
from trimtab.simulate.workloads.adoption import ORPHAN_PODS, claim_children, orphan_trigger
from trimtab.simulate.workloads.owned_pods import (
    PODS_BY_OWNER,
    AlwaysWritten,
    PodIdentity,
    active_pods,
    count_pods,
    new_child_names,
    owner_trigger,
    pod_from,
    raw_of,
    ready_since,
    terminating_pods,
    update_status,
)
from trimtab.simulate.workloads.registry import workload

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
EARLIEST = datetime.min.replace(tzinfo=UTC)
BURST_REPLICAS = 500
ReplicaController = ReplicaSet | ReplicationController


@workload(
    ReplicaSet,
    writes=["Pod", "status"],
    triggers=[owner_trigger(ReplicaSet, Pod), orphan_trigger(ReplicaSet, Pod)],
)
def replicaset(wanted: ReplicaSet, view: View) -> Iterator[Effect]:
    yield from _reconcile(wanted, view)


@workload(
    ReplicationController,
    writes=["Pod", "status"],
    triggers=[owner_trigger(ReplicationController, Pod), orphan_trigger(ReplicationController, Pod)],
)
def replicationcontroller(wanted: ReplicationController, view: View) -> Iterator[Effect]:
    if wanted.spec.template is not None:
        yield from _reconcile(wanted, view)


def _reconcile(wanted: ReplicaController, view: View) -> Iterator[Effect]:
    owned = view.by_index(PODS_BY_OWNER, wanted.metadata.uid)
    orphans = view.by_index(ORPHAN_PODS, wanted.metadata.namespace)
    claim = claim_children(wanted, owned, active_pods(orphans))
    yield from claim.effects
    pods = claim.children
    active = active_pods(pods)
    surplus = len(active) - _replicas(wanted)
    refused = view.fault is not None and view.fault.code == 403
    if refused:
        # an immediate retry would be refused again: report the failure before creating pods
        yield from _update_status(wanted, pods, active, view, refused=True)
    if wanted.metadata.deletion_timestamp is None:
        if surplus < 0:
            yield from _create_pods(wanted, view, min(-surplus, BURST_REPLICAS))
        for pod in pods_to_delete(active, surplus, view):
            yield Delete(pod)
    if not refused:
        yield from _update_status(wanted, pods, active, view, refused=False)


def _replicas(wanted: ReplicaController) -> int:
    return 1 if wanted.spec.replicas is None else wanted.spec.replicas


def _create_pods(wanted: ReplicaController, view: View, count: int) -> Iterator[Ensure]:
    template = raw_of(wanted, view)["spec"]["template"]
    for name in new_child_names(wanted, view, count):
        yield Ensure(pod_from(template, wanted, PodIdentity(name)))


def pods_to_delete(active: Sequence[Pod], surplus: int, view: View) -> list[Pod]:
    """The pods to delete when scaling down, in the order of Kubernetes."""
    if surplus <= 0:
        return []
    pods_on_node: dict[str, int] = {}
    for pod in active:
        pods_on_node[pod.spec.node_name] = pods_on_node.get(pod.spec.node_name, 0) + 1

    def rank(pod: Pod) -> tuple[object, ...]:
        since, created = ready_since(pod) or EARLIEST, pod.metadata.creation_timestamp or EARLIEST
        return (
            bool(pod.spec.node_name),
            PHASES.get(pod.status.phase, 2),
            pod.is_ready,
            _deletion_cost(pod),
            -pods_on_node[pod.spec.node_name],
            -since.timestamp() if since is not EARLIEST else 0.0,
            -max((status.restart_count for status in pod.status.container_statuses), default=0),
            -created.timestamp() if created is not EARLIEST else 0.0,
            pod.metadata.name,
        )

    return sorted(active, key=rank)[:surplus]


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _update_status(
    wanted: ReplicaController, pods: Sequence[Pod], active: Sequence[Pod], view: View, *, refused: bool
) -> Iterator[Effect]:
    raw = raw_of(wanted, view)
    labels = wanted.spec.template.metadata.labels if wanted.spec.template is not None else {}
    count = count_pods(active, wanted.spec.min_ready_seconds, view.now)
    yield from update_status(
        raw,
        {
            "replicas": AlwaysWritten(len(active)),
            "fullyLabeledReplicas": sum(labels.items() <= pod.metadata.labels.items() for pod in active),
            "readyReplicas": count.ready,
            "availableReplicas": count.available,
            **_terminating_field(wanted, pods),
            "observedGeneration": wanted.metadata.generation,
            "conditions": _conditions(raw, view, refused=refused),
        },
    )
    if count.seconds_until_next is not None:
        yield RequeueAfter(count.seconds_until_next)


def _terminating_field(wanted: ReplicaController, pods: Sequence[Pod]) -> dict[str, AlwaysWritten]:
    """The count of terminating pods, a field that ReplicationControllers do not have."""
    if isinstance(wanted, ReplicationController):
        return {}
    return {"terminatingReplicas": AlwaysWritten(len(terminating_pods(pods)))}


def _conditions(raw: Raw, view: View, *, refused: bool) -> list[Raw]:
    others = [c for c in (raw.get("status") or {}).get("conditions") or [] if c["type"] != "ReplicaFailure"]
    if not refused or view.fault is None:
        return others
    known = [c for c in (raw.get("status") or {}).get("conditions") or [] if c["type"] == "ReplicaFailure"]
    if known:
        return [*others, *known]
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": timestamp(view.now),
        "reason": "FailedCreate",
        "message": view.fault.message,
    }
    return [*others, failure]
