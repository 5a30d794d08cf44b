"""Pods leave nodes that would not take them any more: an affinity, a taint or a spread that came later."""

from collections.abc import Iterator

from trimtab.decide.pods.ask import ask_for
from trimtab.decide.pods.schedule import Taste, objection_to
from trimtab.decide.reschedule.gains import homeless, without
from trimtab.decide.reschedule.objectives import FULL, Candidate, NoArgs, objective
from trimtab.decide.reschedule.picture import Picture

DEMANDS = Taste(filters=("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"))
"""What a pod demands of its node; room is not among it, for it has its room."""


@objective("HardViolation")
def hard_violation(args: NoArgs, picture: Picture) -> Iterator[Candidate]:
    for pod in picture.running:
        node = pod.pod.spec.node_name
        if pod.traits.daemon or pod.terminating:
            continue
        rest = without(pod, picture.fleet)
        objection = objection_to(ask_for(homeless(pod), rest), rest, node, DEMANDS)
        if objection is not None:
            yield Candidate(pod, FULL, f"{node} would not take it any more: {objection.reason.message}", urgent=True)
