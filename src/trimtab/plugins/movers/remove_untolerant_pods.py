"""Evict pods that do not tolerate a taint added to their node later."""

from trimtab.api.kinds.native.node import Taint
from trimtab.decide.pods.descheduling.evictor import Round
from trimtab.decide.pods.descheduling.movers import PodArgs, each_pod, mover, take
from trimtab.decide.pods.fit.node_predicates import untolerated
from trimtab.decide.pods.node_info import Host, Resident


class NodeTaintsArgs(PodArgs):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()

    def complaint(self) -> str:
        both = self.excluded_taints and self.included_taints
        return "give either excludedTaints or includedTaints" if both else super().complaint()

    def includes(self, taint: Taint) -> bool:
        """A taint is named by its key, or by key=value."""
        names = {taint.key, f"{taint.key}={taint.value}"}
        if names & set(self.excluded_taints):
            return False
        return not self.included_taints or bool(names & set(self.included_taints))


@mover("RemovePodsViolatingNodeTaints", args=NodeTaintsArgs)
def remove_untolerant_pods(args: NodeTaintsArgs, round_: Round) -> None:
    """NoExecute is left to the taint manager."""
    effects = {"NoSchedule", "PreferNoSchedule"} if args.include_prefer_no_schedule else {"NoSchedule"}

    def offending(pod: Resident, node_info: Host) -> Taint | None:
        taints = [taint for taint in node_info.node.spec.taints if args.includes(taint)]
        return untolerated(taints, pod.pod.spec.tolerations, effects)

    found = [(pod, offending(pod, node_info)) for node_info, pod in each_pod(round_, args)]
    take(((pod, f"does not tolerate the taint {taint.key}:{taint.effect}") for pod, taint in found if taint), round_)
