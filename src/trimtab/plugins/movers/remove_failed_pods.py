"""Remove failed pods."""

from datetime import datetime

from trimtab.api.kinds.native.pod import ContainerStatus, Pod
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, each_pod, evict_pods, mover


class RemoveFailedPodsArgs(PodFilterArgs):
    min_pod_lifetime_seconds: int | None = None
    exclude_owner_kinds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    including_init_containers: bool = False


@mover("RemoveFailedPods", args=RemoveFailedPodsArgs)
def remove_failed_pods(args: RemoveFailedPodsArgs, mover_run: MoverRun) -> None:
    found = [
        pod
        for _, pod in each_pod(mover_run, args, finished=True)
        if has_failed(pod.pod, args, mover_run.cluster_view.now)
    ]
    evict_pods(((pod, f"has failed: {pod.pod.status.reason or 'no reason given'}") for pod in found), mover_run)


def has_failed(pod: Pod, args: RemoveFailedPodsArgs, now: datetime) -> bool:
    if pod.status.phase != "Failed":
        return False
    if args.min_pod_lifetime_seconds is not None:
        lived = int((now - (pod.metadata.creation_timestamp or now)).total_seconds())
        if lived < args.min_pod_lifetime_seconds:
            return False
    if any(owner.kind in args.exclude_owner_kinds for owner in pod.metadata.owner_references):
        return False
    ended = _container_statuses(pod, args)
    if args.reasons and not _failure_reasons(pod, ended) & set(args.reasons):
        return False
    codes = {status.state.terminated.exit_code for status in ended if status.state.terminated is not None}
    return not args.exit_codes or bool(codes & set(args.exit_codes))


def _container_statuses(pod: Pod, args: RemoveFailedPodsArgs) -> tuple[ContainerStatus, ...]:
    return pod.status.container_statuses + (
        pod.status.init_container_statuses if args.including_init_containers else ()
    )


def _failure_reasons(pod: Pod, statuses: tuple[ContainerStatus, ...]) -> set[str]:
    found = {pod.status.reason}
    for status in statuses:
        if status.state.waiting is not None:
            found.add(status.state.waiting.reason)
        if status.state.terminated is not None:
            found.add(status.state.terminated.reason)
    return found
