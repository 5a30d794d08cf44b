"""Evict pods whose node affinity no longer holds, or would hold better on another node."""

from collections.abc import Callable

from trimtab.api.kinds.native.pod import PodSpec
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, each_pod, evict_pods, mover
from trimtab.decide.pods.fit.node_predicates import preferred_node_matcher, required_node_matcher, required_selector
from trimtab.decide.pods.node_info import NodeInfo, PodInfo

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinityArgs(PodFilterArgs):
    node_affinity_type: tuple[str, ...] = ()

    def validation_error(self) -> str:
        if not self.node_affinity_type:
            return "nodeAffinityType is empty"
        unknown = set(self.node_affinity_type) - {REQUIRED, PREFERRED}
        return f"nodeAffinityType: there is no {min(unknown)}" if unknown else super().validation_error()


@mover("RemovePodsViolatingNodeAffinity", args=NodeAffinityArgs)
def remove_misplaced_pods(args: NodeAffinityArgs, mover_run: MoverRun) -> None:
    for kind in args.node_affinity_type:
        is_misplaced = _RULES[kind](mover_run)
        found = [pod for node_info, pod in each_pod(mover_run, args) if is_misplaced(pod, node_info)]
        evict_pods(((pod, f"another node suits its {kind[:9]} node affinity better") for pod in found), mover_run)


def _violates_required(mover_run: MoverRun) -> Callable[[PodInfo, NodeInfo], bool]:
    def is_misplaced(pod: PodInfo, node_info: NodeInfo) -> bool:
        spec = pod.pod.spec
        return (
            required_selector(spec) is not None
            and not required_node_matcher(spec)(node_info)
            and mover_run.fits_anywhere(pod)
        )

    return is_misplaced


def _prefers_other_node(mover_run: MoverRun) -> Callable[[PodInfo, NodeInfo], bool]:
    def is_misplaced(pod: PodInfo, node_info: NodeInfo) -> bool:
        weigh = weight_for(pod.pod.spec)
        if weigh is None or not mover_run.fits_anywhere(pod):
            return False
        return max(weigh(other) for other in mover_run.cluster_view.nodes) > weigh(node_info)

    return is_misplaced


_RULES = {REQUIRED: _violates_required, PREFERRED: _prefers_other_node}


def weight_for(spec: PodSpec) -> Callable[[NodeInfo], int] | None:
    """The sum of preferences that a node matches; None without preferences."""
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or not affinity.preferred_during_scheduling_ignored_during_execution:
        return None
    terms = [
        (preferred_node_matcher(term.preference), term.weight)
        for term in affinity.preferred_during_scheduling_ignored_during_execution
    ]
    return lambda node_info: sum(weight for matches, weight in terms if matches(node_info))
