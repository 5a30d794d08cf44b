"""Evict pods that are too old, or in a state for too long."""

from datetime import datetime

from trimtab.api.kinds.native.pod import ContainerStatus, Pod
from trimtab.api.value import Value
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import PodFilterArgs, each_pod, evict_pods, mover
from trimtab.decide.pods.node_info import PodInfo


class OwnerKinds(Value):
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def admit(self, pod: Pod) -> bool:
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        return not kinds & set(self.exclude) and (not self.include or bool(kinds & set(self.include)))


class ConditionRule(Value):
    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: int | None = None


class PodLifeTimeArgs(PodFilterArgs):
    max_pod_life_time_seconds: int | None = None
    states: tuple[str, ...] = ()
    owner_kinds: OwnerKinds = OwnerKinds()
    conditions: tuple[ConditionRule, ...] = ()
    exit_codes: tuple[int, ...] = ()
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def validation_error(self) -> str:
        owners = self.owner_kinds.include or self.owner_kinds.exclude
        criteria = (self.max_pod_life_time_seconds is not None, self.states, owners, self.conditions, self.exit_codes)
        if not any(criteria):
            return "at least one criterion is needed"
        if self.max_pod_life_time_seconds is not None and self.max_pod_life_time_seconds < 0:
            return "maxPodLifeTimeSeconds must not be negative"
        if self.owner_kinds.include and self.owner_kinds.exclude:
            return "ownerKinds: give either include or exclude"
        return super().validation_error()


@mover("PodLifeTime", args=PodLifeTimeArgs)
def pod_life_time(args: PodLifeTimeArgs, mover_run: MoverRun) -> None:
    """All given criteria must hold; the oldest pods go first, over all nodes."""
    found = [
        pod
        for _, pod in each_pod(mover_run, args, finished=True)
        if meets_criteria(pod.pod, args, mover_run.cluster_view.now)
    ]
    found.sort(key=lambda pod: pod.pod.metadata.creation_timestamp or mover_run.cluster_view.now)
    evict_pods(((pod, _eviction_reason(pod, mover_run.cluster_view.now)) for pod in found), mover_run)


def _eviction_reason(pod: PodInfo, now: datetime) -> str:
    return f"is {age(pod.pod, now)} s old, phase {pod.pod.status.phase}"


def age(pod: Pod, now: datetime) -> int:
    return int((now - (pod.metadata.creation_timestamp or now)).total_seconds())


def meets_criteria(pod: Pod, args: PodLifeTimeArgs, now: datetime) -> bool:
    if args.max_pod_life_time_seconds is not None and age(pod, now) <= args.max_pod_life_time_seconds:
        return False
    if args.states and not states(pod, args) & set(args.states):
        return False
    if not args.owner_kinds.admit(pod):
        return False
    if args.conditions and not any(_matches_condition(rule, pod, now) for rule in args.conditions):
        return False
    return not args.exit_codes or bool(exit_codes(pod, args) & set(args.exit_codes))


def containers(pod: Pod, args: PodLifeTimeArgs) -> tuple[ContainerStatus, ...]:
    initial = pod.status.init_container_statuses if args.including_init_containers else ()
    ephemeral = pod.status.ephemeral_container_statuses if args.including_ephemeral_containers else ()
    return (*pod.status.container_statuses, *initial, *ephemeral)


def states(pod: Pod, args: PodLifeTimeArgs) -> set[str]:
    """The phase, the pod's reason, and the reasons of waiting or terminated containers."""
    found = {pod.status.phase, pod.status.reason}
    for status in containers(pod, args):
        if status.state.waiting is not None:
            found.add(status.state.waiting.reason)
        if status.state.terminated is not None:
            found.add(status.state.terminated.reason)
    return found - {""}


def exit_codes(pod: Pod, args: PodLifeTimeArgs) -> set[int]:
    return {
        status.state.terminated.exit_code for status in containers(pod, args) if status.state.terminated is not None
    }


def _matches_condition(rule: ConditionRule, pod: Pod, now: datetime) -> bool:
    for condition in pod.status.conditions:
        wanted = ((rule.type, condition.type), (rule.status, condition.status), (rule.reason, condition.reason))
        if any(want and want != have for want, have in wanted):
            continue
        least, since = rule.min_time_since_last_transition_seconds, condition.last_transition_time
        if least is None or (since is not None and (now - since).total_seconds() >= least):
            return True
    return False
