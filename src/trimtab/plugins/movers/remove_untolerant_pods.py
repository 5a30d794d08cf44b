"""Evict pods that do not tolerate a taint added to their node later."""

from trimtab.api.kinds.native.node import Taint
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, each_pod, evict_pods, mover
from trimtab.decide.pods.fit.node_predicates import first_untolerated_taint
from trimtab.decide.pods.node_info import NodeInfo, PodInfo


class NodeTaintsArgs(PodFilterArgs):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()

    def validation_error(self) -> str:
        both = self.excluded_taints and self.included_taints
        return "give either excludedTaints or includedTaints" if both else super().validation_error()

    def includes(self, taint: Taint) -> bool:
        """A taint is named by its key, or by key=value."""
        names = {taint.key, f"{taint.key}={taint.value}"}
        if names & set(self.excluded_taints):
            return False
        return not self.included_taints or bool(names & set(self.included_taints))


@mover("RemovePodsViolatingNodeTaints", args=NodeTaintsArgs)
def remove_untolerant_pods(args: NodeTaintsArgs, mover_run: MoverRun) -> None:
    """NoExecute is left to the taint manager."""
    effects = {"NoSchedule", "PreferNoSchedule"} if args.include_prefer_no_schedule else {"NoSchedule"}

    def offending(pod: PodInfo, node_info: NodeInfo) -> Taint | None:
        taints = [taint for taint in node_info.node.spec.taints if args.includes(taint)]
        return first_untolerated_taint(taints, pod.pod.spec.tolerations, effects)

    found = [(pod, offending(pod, node_info)) for node_info, pod in each_pod(mover_run, args)]
    evict_pods(
        ((pod, f"does not tolerate the taint {taint.key}:{taint.effect}") for pod, taint in found if taint), mover_run
    )
