"""Evict pods that restart too often."""

from trimtab.api.kinds.native.pod import ContainerStatus, Pod
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, evict_pods, mover


class TooManyRestartsArgs(PodFilterArgs):
    pod_restart_threshold: int = 1
    including_init_containers: bool = False
    states: tuple[str, ...] = ()

    def validation_error(self) -> str:
        return (
            "podRestartThreshold must be at least 1" if self.pod_restart_threshold < 1 else super().validation_error()
        )


@mover("RemovePodsHavingTooManyRestarts", args=TooManyRestartsArgs)
def remove_restarting_pods(args: TooManyRestartsArgs, mover_run: MoverRun) -> None:
    """Node by node, most restarts first."""
    found = []
    for node_info in mover_run.cluster_view.nodes:
        meant = [
            pod
            for pod in mover_run.cluster_view.all_pods_on(node_info.name)
            if args.selects(pod) and _restarts_too_often(pod.pod, args)
        ]
        found += sorted(meant, key=lambda pod: -restart_sum(pod.pod, args))
    evict_pods(((pod, f"has restarted {restart_sum(pod.pod, args)} times") for pod in found), mover_run)


def restart_sum(pod: Pod, args: TooManyRestartsArgs) -> int:
    return sum(status.restart_count for status in _statuses(pod, args))


def _restarts_too_often(pod: Pod, args: TooManyRestartsArgs) -> bool:
    if restart_sum(pod, args) < args.pod_restart_threshold:
        return False
    waiting = {status.state.waiting.reason for status in _statuses(pod, args) if status.state.waiting is not None}
    return not args.states or bool(({pod.status.phase} | waiting) & set(args.states))


def _statuses(pod: Pod, args: TooManyRestartsArgs) -> tuple[ContainerStatus, ...]:
    return pod.status.container_statuses + (
        pod.status.init_container_statuses if args.including_init_containers else ()
    )
