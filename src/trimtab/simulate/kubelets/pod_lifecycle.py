"""The state of one pod on its node, as a kubelet reports it: its init containers in order, then its containers."""

from collections.abc import Callable, Iterator
from datetime import datetime

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.simulate.containers.container_lifecycle import TIME_TOLERANCE_SECONDS, ContainerLifecycle
from trimtab.simulate.containers.programs import ContainerContext
from trimtab.simulate.kubelets.behaviour import Behaviour

ContextOf = Callable[[Raw], ContainerContext | None]
"""What the program of a container can see; None for a container whose program is not known."""
INIT_BEHAVIOUR = Behaviour(start=0.0, ready=0.0, stop=0.0, run=0.0)
"""An init container whose program is not known succeeds at once."""
CONFIG_RETRY_SECONDS = 5.0
MAX_STEPS_AT_ONCE = 1_000
"""What programs of one pod do before others have a turn."""
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def _no_context(container: Raw) -> ContainerContext | None:
    return None


class PodLifecycle:
    """The kubelet's state of one pod. Times are loop seconds; `to_wall_time` converts them to wall-clock times."""

    def __init__(
        self,
        pod: Pod,
        raw: Raw,
        behaviour: Behaviour,
        now: float,
        to_wall_time: Callable[[float], datetime],
        context_of: ContextOf = _no_context,
    ) -> None:
        self.uid = pod.metadata.uid
        self.node = pod.spec.node_name
        self._behaviour = behaviour
        self.to_wall_time = to_wall_time
        self._context_of = context_of
        self.start_time = now
        self.stop_at: float | None = None
        self.is_admitted = True
        self.is_failed = False
        """Whether the kubelet ended the pod: a failed init container, its deadline, its deletion."""
        self.failure: Raw = {}
        """Reason and message of a failure of the whole pod."""
        self.config_errors: dict[str, str] = {}
        """Why containers cannot start, by name: a missing ConfigMap or Secret."""
        self._deadline = pod_deadline(raw)
        self._reported: tuple[str, str] | None = None
        self._restart_policy = pod.spec.restart_policy or "Always"
        spec = raw["spec"]
        self.inits = [self._new_container(one, init=True) for one in spec.get("initContainers") or ()]
        self.containers = [self._new_container(one) for one in spec.get("containers") or ()]
        self._next_container = 0
        self.ephemerals: list[ContainerLifecycle] = []
        if pod.status.phase == "Running":  # the pod started before this kubelet did
            self._resume(pod, now)
        elif not self.inits:
            for container in self.containers:
                container.schedule(now + behaviour.start)
        self.observe(raw, now)

    def _new_container(self, container: Raw, *, init: bool = False) -> ContainerLifecycle:
        policy = self._restart_policy
        behaviour = self._behaviour
        if init and container.get("restartPolicy") == "Always":
            policy, behaviour = "Always", self._behaviour._replace(run=None)
        elif init:
            policy, behaviour = ("Never" if policy == "Never" else "OnFailure"), INIT_BEHAVIOUR
        return ContainerLifecycle(container, policy, behaviour, self.to_wall_time, self._context_of)

    def _resume(self, pod: Pod, now: float) -> None:
        restarts = {one.name: one.restart_count for one in pod.status.container_statuses}
        for container in self.inits:
            container.schedule(now)
            if container.restart_policy == "Always":
                container.mark_running(now, 0)
            else:
                container.termination = {"exitCode": 0, "reason": "Completed"}
        for container in self.containers:
            container.mark_running(now - self._behaviour.ready, restarts.get(container.name, 0))

    # what changes from outside

    @property
    def behaviour(self) -> Behaviour:
        return self._behaviour

    def change_behaviour(self, behaviour: Behaviour, now: float) -> None:
        before, self._behaviour = self._behaviour, behaviour
        for container in self.containers:
            container.behaviour = behaviour
            if container.running_since is not None and before.crash != behaviour.crash:
                container.running_since = now - behaviour.ready  # the time until the crash starts now

    def observe(self, raw: Raw, now: float) -> bool:
        """Take over changes of the spec that a running pod follows; whether there were any."""
        changed = False
        deadline = pod_deadline(raw)
        if deadline != self._deadline:
            self._deadline, changed = deadline, True
        spec = raw["spec"]
        by_name = {one["name"]: one for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))}
        for container in (*self.containers, *self.inits):
            wanted = by_name.get(container.name, container.container)
            if wanted.get("image") != container.container.get("image"):
                container.change_image(wanted, now)
                changed = True
        known = {one.name for one in self.ephemerals}
        for added in spec.get("ephemeralContainers") or ():
            if added["name"] not in known:
                never_ends = self._behaviour._replace(run=None, crash=None)
                self.ephemerals.append(
                    ContainerLifecycle(added, "Never", never_ends, self.to_wall_time, self._context_of)
                )
                self.ephemerals[-1].schedule(now)
                changed = True
        return changed

    # time

    @property
    def is_initialized(self) -> bool:
        return all(is_init_done(one) for one in self.inits)

    @property
    def is_finished(self) -> bool:
        """Whether the pod has ended for good."""
        return self.is_failed or (bool(self.containers) and all(one.termination is not None for one in self.containers))

    def _is_running(self) -> bool:
        return not self.is_finished

    @property
    def phase(self) -> str:
        if self.is_failed:
            return "Failed"
        if self.is_finished:
            return "Succeeded" if all(one.has_succeeded for one in self.containers) else "Failed"
        return "Running" if any(one.has_run for one in self.containers) else "Pending"

    def advance(self, now: float) -> float | None:
        """Advance to `now`; returns the time of the next change, if any."""
        if self.is_finished:
            return None
        deadline = None if self._deadline is None else self.start_time + self._deadline
        if deadline is not None and now + TIME_TOLERANCE_SECONDS >= deadline:
            self.failure = {"reason": "DeadlineExceeded", "message": DEADLINE_MESSAGE}
            self._end_all(now)
            return None
        if self.config_errors:
            return now + CONFIG_RETRY_SECONDS
        waits = [deadline, self._advance_inits(now)]
        waits += self._advance_containers(now)
        if not self._is_running():
            for sidecar in self.inits:
                sidecar.stop(now, 0, "Completed")
            return None
        waits += [one.advance(now) for one in self.ephemerals]
        return min((one for one in waits if one is not None), default=None)

    def _advance_containers(self, now: float) -> Iterator[float | None]:
        """Advance all containers; when those of the first ones do much, the others follow after a turn of the event loop."""
        begin, done = self._next_container, 0
        self._next_container = 0
        for number in (*range(begin, len(self.containers)), *range(begin)):
            if done > MAX_STEPS_AT_ONCE:
                self._next_container = number
                yield now
                return
            container = self.containers[number]
            before = container.steps_done
            yield container.advance(now)
            done += max(0, container.steps_done - before)

    def _advance_inits(self, now: float) -> float | None:
        """Run the init containers one after the other, then schedule the containers."""
        waits: list[float] = []
        began = self.start_time + self._behaviour.start
        for container in self.inits:
            container.schedule(max(began, now) if container is not self.inits[0] else began)
            wait = container.advance(now)
            if wait is not None:
                waits.append(wait)
            if is_init_done(container):
                continue
            if container.termination is not None and not container.has_succeeded:
                self.is_failed = True
            return min(waits, default=None)
        if self.inits:
            for container in self.containers:
                container.schedule(now)
        return min(waits, default=None)

    def _end_all(self, now: float) -> None:
        self.is_failed = True
        for container in (*self.inits, *self.containers, *self.ephemerals):
            if container.has_run or container in self.containers:
                container.stop(now)

    def interrupt(self, now: float) -> None:
        """Restart the containers, after the machine was down."""
        for container in (*self.inits, *self.containers):
            container.interrupt(now)

    def stop(self, now: float) -> None:
        """Terminate on deletion."""
        if not self.is_finished:
            self._end_all(now)

    def termination_seconds(self) -> float:
        """How long its programs run on after SIGTERM."""
        return max((one.termination_seconds() for one in self.containers), default=0.0)

    def running_containers(self) -> list[str]:
        """The names of the containers that run now."""
        every = (*self.inits, *self.containers, *self.ephemerals)
        return [one.name for one in every if one.running_since is not None]

    def container(self, name: str) -> ContainerLifecycle | None:
        return next((one for one in (*self.containers, *self.inits, *self.ephemerals) if one.name == name), None)

    # reports

    def note_report(self, status: Raw) -> None:
        """Remember what the kubelet reports."""
        self._reported = _phase_and_readiness(status)

    def is_changed_by_others(self, pod: Raw) -> bool:
        """Whether somebody else wrote another phase or readiness, such as the controller of a node that seemed silent.

        A write of that controller may arrive after the kubelet has reported again. Nothing else would repair it.
        """
        return self._reported is not None and _phase_and_readiness(pod.get("status") or {}) != self._reported

    def is_ready(self, now: float) -> bool:
        if self.is_finished or not self.containers:
            return False
        sidecars = [one for one in self.inits if one.restart_policy == "Always"]
        return self.is_initialized and all(one.is_ready(now) for one in (*self.containers, *sidecars))


def is_init_done(container: ContainerLifecycle) -> bool:
    """Whether the next container may start: a sidecar has started, another init container has succeeded."""
    return container.is_started if container.restart_policy == "Always" else container.has_succeeded


def pod_deadline(raw: Raw) -> float | None:
    """The seconds that the pod may be active."""
    seconds = raw["spec"].get("activeDeadlineSeconds")
    return None if seconds is None else float(seconds)


def _phase_and_readiness(status: Raw) -> tuple[str, str]:
    ready = next((one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"), "")
    return status.get("phase", ""), ready
