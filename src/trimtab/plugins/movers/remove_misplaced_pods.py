"""Pods whose node affinity no longer holds, or would hold better elsewhere, move there."""

from collections.abc import Callable

from trimtab.api.kinds.native.pod import PodSpec
from trimtab.decide.pods.descheduling.evictor import Round
from trimtab.decide.pods.descheduling.movers import PodArgs, each_pod, mover, take
from trimtab.decide.pods.fit.node_predicates import prefers, required_selector, wants
from trimtab.decide.pods.node_info import Host, Resident

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class AffinityArgs(PodArgs):
    node_affinity_type: tuple[str, ...] = ()

    def complaint(self) -> str:
        if not self.node_affinity_type:
            return "nodeAffinityType is empty"
        strange = set(self.node_affinity_type) - {REQUIRED, PREFERRED}
        return f"nodeAffinityType: there is no {min(strange)}" if strange else super().complaint()


@mover("RemovePodsViolatingNodeAffinity", args=AffinityArgs)
def remove_misplaced_pods(args: AffinityArgs, round_: Round) -> None:
    for kind in args.node_affinity_type:
        misplaced = _RULES[kind](round_)
        found = [pod for here, pod in each_pod(round_, args) if misplaced(pod, here)]
        take(((pod, f"another node suits its {kind[:9]} node affinity better") for pod in found), round_)


def _violating(round_: Round) -> Callable[[Resident, Host], bool]:
    def misplaced(pod: Resident, here: Host) -> bool:
        spec = pod.pod.spec
        return required_selector(spec) is not None and not wants(spec)(here) and round_.fits_anywhere(pod)

    return misplaced


def _could_be_better(round_: Round) -> Callable[[Resident, Host], bool]:
    def misplaced(pod: Resident, here: Host) -> bool:
        weigh = weight_for(pod.pod.spec)
        if weigh is None or not round_.fits_anywhere(pod):
            return False
        return max(weigh(other) for other in round_.scene.hosts) > weigh(here)

    return misplaced


_RULES = {REQUIRED: _violating, PREFERRED: _could_be_better}


def weight_for(spec: PodSpec) -> Callable[[Host], int] | None:
    """The sum of preferences that a node meets; None without preferences."""
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or not affinity.preferred_during_scheduling_ignored_during_execution:
        return None
    terms = [
        (prefers(term.preference), term.weight)
        for term in affinity.preferred_during_scheduling_ignored_during_execution
    ]
    return lambda here: sum(weight for matches, weight in terms if matches(here))
