"""Move pods off nodes that would reject them now: because of an affinity, taint or spread that was added later."""

from collections.abc import Iterator
from functools import partial

from trimtab.decide.framework import Rejection
from trimtab.decide.pods.fit.node_predicates import REPELLING
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import Taste, objection_to
from trimtab.decide.rescheduling.objectives import FULL_GAIN, MoveCandidate, NoArgs, objective
from trimtab.decide.rescheduling.score_gain import MoveForecast, TrialFleet, without_node, without_pod
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

REQUIRED_FILTERS = Taste(filters=("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"))
"""The requirements of a pod on its node; capacity is not included, because the pod already has it."""


@objective("HardViolation")
def hard_violation(args: NoArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    repelling = any(own.required and own.repels for own in snapshot.fleet.carried)
    for pod in snapshot.running_pods:
        node_info = snapshot.fleet.get(pod.pod.spec.node_name)
        if (
            node_info is None
            or pod.traits.daemon
            or pod.terminating
            or not (repelling or _has_requirements(pod, node_info))
        ):
            continue
        objection = violation(pod, snapshot.fleet)
        if objection is not None:
            reason = f"{node_info.name} would not take it any more: {objection.reason.message}"
            yield MoveCandidate(pod, FULL_GAIN, reason, partial(reevaluate_violation, pod), urgent=True)


def violation(pod: Resident, fleet: NodeFleet) -> Rejection | None:
    """Why the pod's own node would reject the pod now; None when it would not."""
    rest = without_pod(pod, fleet)
    return objection_to(ask_for(without_node(pod), rest), rest, pod.pod.spec.node_name, REQUIRED_FILTERS)


def reevaluate_violation(pod: Resident, bench: TrialFleet, found: MoveForecast) -> float:
    """0 once other moves have resolved the violation: of two conflicting pods only one must move."""
    return FULL_GAIN if violation(pod, bench.fleet) is not None else 0.0


def _has_requirements(pod: Resident, node_info: Host) -> bool:
    """Whether anything can be violated; most pods of a large cluster need no further check."""
    spec = pod.pod.spec
    tainted = any(taint.effect in REPELLING for taint in node_info.node.spec.taints)
    return tainted or bool(spec.node_selector or spec.affinity or spec.topology_spread_constraints)
