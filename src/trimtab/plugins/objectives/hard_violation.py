"""Move pods off nodes that would reject them now: because of an affinity, taint or spread that was added later."""

from collections.abc import Iterator
from functools import partial

from trimtab.decide.framework import Objection
from trimtab.decide.pods.fit.node_predicates import REPELLING
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import Taste, objection_to
from trimtab.decide.rescheduling.objectives import FULL, Candidate, NoArgs, objective
from trimtab.decide.rescheduling.score_gain import Bench, Prospect, homeless, without
from trimtab.decide.rescheduling.snapshot import Picture

DEMANDS = Taste(filters=("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"))
"""The requirements of a pod on its node; capacity is not included, because the pod already has it."""


@objective("HardViolation")
def hard_violation(args: NoArgs, picture: Picture) -> Iterator[Candidate]:
    repelling = any(own.required and own.repels for own in picture.fleet.carried)
    for pod in picture.running:
        node_info = picture.fleet.get(pod.pod.spec.node_name)
        if node_info is None or pod.traits.daemon or pod.terminating or not (repelling or _demands(pod, node_info)):
            continue
        objection = violated(pod, picture.fleet)
        if objection is not None:
            reason = f"{node_info.name} would not take it any more: {objection.reason.message}"
            yield Candidate(pod, FULL, reason, partial(again, pod), urgent=True)


def violated(pod: Resident, fleet: NodeFleet) -> Objection | None:
    """Why the pod's own node would reject the pod now; None when it would not."""
    rest = without(pod, fleet)
    return objection_to(ask_for(homeless(pod), rest), rest, pod.pod.spec.node_name, DEMANDS)


def again(pod: Resident, bench: Bench, found: Prospect) -> float:
    """0 once other moves have resolved the violation: of two conflicting pods only one must move."""
    return FULL if violated(pod, bench.fleet) is not None else 0.0


def _demands(pod: Resident, here: Host) -> bool:
    """Whether anything can be violated; most pods of a large cluster need no further check."""
    spec = pod.pod.spec
    tainted = any(taint.effect in REPELLING for taint in here.node.spec.taints)
    return tainted or bool(spec.node_selector or spec.affinity or spec.topology_spread_constraints)
