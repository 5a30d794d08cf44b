"""Evict pods whose node affinity no longer holds, or would hold better on another node."""

from collections.abc import Callable

from trimtab.api.kinds.native.pod import PodSpec
from trimtab.decide.pods.descheduling.evictor import Round
from trimtab.decide.pods.descheduling.movers import PodArgs, each_pod, mover, take
from trimtab.decide.pods.fit.node_predicates import prefers, required_selector, wants
from trimtab.decide.pods.node_info import Host, Resident

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinityArgs(PodArgs):
    node_affinity_type: tuple[str, ...] = ()

    def complaint(self) -> str:
        if not self.node_affinity_type:
            return "nodeAffinityType is empty"
        unknown = set(self.node_affinity_type) - {REQUIRED, PREFERRED}
        return f"nodeAffinityType: there is no {min(unknown)}" if unknown else super().complaint()


@mover("RemovePodsViolatingNodeAffinity", args=NodeAffinityArgs)
def remove_misplaced_pods(args: NodeAffinityArgs, round_: Round) -> None:
    for kind in args.node_affinity_type:
        is_misplaced = _RULES[kind](round_)
        found = [pod for node_info, pod in each_pod(round_, args) if is_misplaced(pod, node_info)]
        take(((pod, f"another node suits its {kind[:9]} node affinity better") for pod in found), round_)


def _violates_required(round_: Round) -> Callable[[Resident, Host], bool]:
    def is_misplaced(pod: Resident, node_info: Host) -> bool:
        spec = pod.pod.spec
        return required_selector(spec) is not None and not wants(spec)(node_info) and round_.fits_anywhere(pod)

    return is_misplaced


def _prefers_other_node(round_: Round) -> Callable[[Resident, Host], bool]:
    def is_misplaced(pod: Resident, node_info: Host) -> bool:
        weigh = weight_for(pod.pod.spec)
        if weigh is None or not round_.fits_anywhere(pod):
            return False
        return max(weigh(other) for other in round_.scene.hosts) > weigh(node_info)

    return is_misplaced


_RULES = {REQUIRED: _violates_required, PREFERRED: _prefers_other_node}


def weight_for(spec: PodSpec) -> Callable[[Host], int] | None:
    """The sum of preferences that a node matches; None without preferences."""
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or not affinity.preferred_during_scheduling_ignored_during_execution:
        return None
    terms = [
        (prefers(term.preference), term.weight)
        for term in affinity.preferred_during_scheduling_ignored_during_execution
    ]
    return lambda node_info: sum(weight for matches, weight in terms if matches(node_info))
