"""Move pods off nodes that would reject them now: because of an affinity, taint or spread that was added later."""

from collections.abc import Iterator
from functools import partial

from trimtab.decide.framework import Rejection
from trimtab.decide.pods.fit.node_predicates import REPELLING
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import SchedulerProfile, node_rejection
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, NoArgs, objective
from trimtab.decide.rescheduling.score_gain import MoveForecast, TrialFleet, without_node, without_pod
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

REQUIRED_FILTERS = SchedulerProfile(
    filters=("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity")
)
"""The requirements of a pod on its node; capacity is not included, because the pod already has it."""


@objective("HardViolation")
def hard_violation(args: NoArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    repelling = any(own.is_required and own.is_anti_affinity for own in snapshot.fleet.affinity_term_counts)
    for pod in snapshot.running_pods:
        node_info = snapshot.fleet.get(pod.pod.spec.node_name)
        if (
            node_info is None
            or pod.traits.is_daemon
            or pod.is_terminating
            or not (repelling or _has_requirements(pod, node_info))
        ):
            continue
        objection = violation(pod, snapshot.fleet)
        if objection is not None:
            reason = f"it no longer fits on {node_info.name}: {objection.reason.message}"
            yield MoveCandidate(pod, FULL_GAIN, reason, partial(reevaluate_violation, pod), urgent=True)


def violation(pod: PodInfo, fleet: NodeSnapshot) -> Rejection | None:
    """Why the pod's own node would reject the pod now; None when it would not."""
    rest = without_pod(pod, fleet)
    return node_rejection(pod_request_for(without_node(pod), rest), rest, pod.pod.spec.node_name, REQUIRED_FILTERS)


def reevaluate_violation(pod: PodInfo, bench: TrialFleet, found: MoveForecast) -> float:
    """0 once other moves have resolved the violation: of two conflicting pods only one must move."""
    return FULL_GAIN if violation(pod, bench.fleet) is not None else 0.0


def _has_requirements(pod: PodInfo, node_info: NodeInfo) -> bool:
    """Whether anything can be violated; most pods of a large cluster need no further check."""
    spec = pod.pod.spec
    tainted = any(taint.effect in REPELLING for taint in node_info.node.spec.taints)
    return tainted or bool(spec.node_selector or spec.affinity or spec.topology_spread_constraints)
