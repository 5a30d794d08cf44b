"""The state of one pod on its node, as a kubelet reports it: waiting, running, ready, crashing, terminated."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.simulate.behaviour import Behaviour

FIRST_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
BACKOFF_RESET_SECONDS = 600.0
"""A container that ran for so long restarts without accumulated back-off."""
TIME_TOLERANCE_SECONDS = 1e-3


class PodLifecycle:
    """The kubelet's state of one pod. Times are loop seconds; `to_wall_time` converts them to wall-clock times."""

    def __init__(self, pod: Pod, behaviour: Behaviour, now: float, to_wall_time: Callable[[float], datetime]) -> None:
        self.uid = pod.metadata.uid
        self.node = pod.spec.node_name
        self.behaviour = behaviour
        self._to_wall_time = to_wall_time
        self.start_time = now
        self.resume_at = now + behaviour.start
        self.running_since: float | None = None
        self.restarts = 0
        self.crashes = 0
        self.last_termination: Raw | None = None
        self.termination: Raw | None = None
        """The final termination state of its containers."""
        self.phase = "Pending"
        self.stop_at: float | None = None
        self.is_admitted = True
        self._reported: tuple[str, str] | None = None
        self._restart_policy = pod.spec.restart_policy or "Always"
        if pod.status.phase == "Running":  # the pod started before this kubelet did
            self.running_since = now - behaviour.ready
            self.restarts = max((one.restart_count for one in pod.status.container_statuses), default=0)

    def advance(self, now: float) -> float | None:
        """Advance to `now`; returns the time of the next change, if any."""
        while self.termination is None:
            if self.running_since is None:
                if now + TIME_TOLERANCE_SECONDS < self.resume_at:
                    return self.resume_at
                self.running_since = self.resume_at
                self.restarts += self.last_termination is not None
            ends_at, well = self._next_end()
            if ends_at is None or now + TIME_TOLERANCE_SECONDS < ends_at:
                ready_at = self.running_since + self.behaviour.ready
                waits = [
                    moment
                    for moment in (ends_at, ready_at)
                    if moment is not None and now + TIME_TOLERANCE_SECONDS < moment
                ]
                return min(waits, default=None)
            self._exit(ends_at, success=well)
        return None

    def _next_end(self) -> tuple[float | None, bool]:
        since, behaviour = self.running_since or 0.0, self.behaviour
        if behaviour.crash is not None and (behaviour.run is None or behaviour.crash < behaviour.run):
            return since + behaviour.crash, False
        return (None, True) if behaviour.run is None else (since + behaviour.run, True)

    def _exit(self, at: float, *, success: bool) -> None:
        since = self.running_since or at
        end = {
            "exitCode": 0 if success else self.behaviour.exit_code,
            "reason": "Completed" if success else self.behaviour.reason,
            "startedAt": timestamp(self._to_wall_time(since)),
            "finishedAt": timestamp(self._to_wall_time(at)),
        }
        self.running_since = None
        if self._restart_policy == "Never" or (self._restart_policy == "OnFailure" and success):
            self.phase, self.termination = ("Succeeded" if success else "Failed"), end
            return
        self.crashes = 1 if at - since >= BACKOFF_RESET_SECONDS else self.crashes + 1
        self.last_termination = end
        pause = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (self.crashes - 1))
        self.resume_at = at + pause

    def interrupt(self, now: float) -> None:
        """Restart the containers, after the machine was down."""
        if self.termination is None and self.running_since is not None:
            self._exit(now, success=False)
            if self.termination is None:
                self.crashes, self.resume_at = 0, now + self.behaviour.start

    def stop(self, now: float) -> None:
        """Terminate on deletion."""
        self.running_since = None
        self.phase = "Failed"
        self.termination = {"exitCode": 137, "reason": "Error", "finishedAt": timestamp(self._to_wall_time(now))}

    def note_report(self, status: Raw) -> None:
        """Remember what the kubelet reports."""
        self._reported = _phase_and_readiness(status)

    def is_changed_by_others(self, pod: Raw) -> bool:
        """Whether somebody else wrote another phase or readiness, such as the controller of a node that seemed silent.

        A write of that controller may arrive after the kubelet has reported again. Nothing else would repair it.
        """
        return self._reported is not None and _phase_and_readiness(pod.get("status") or {}) != self._reported

    def is_ready(self, now: float) -> bool:
        if self.running_since is None or not self.behaviour.healthy:
            return False
        return now + TIME_TOLERANCE_SECONDS >= self.running_since + self.behaviour.ready

    def status(self, pod: Raw, now: float, address: str) -> Raw:
        """The part of the pod status that the kubelet owns."""
        running = self.running_since is not None
        ready = self.is_ready(now) and self._are_readiness_gates_true(pod)
        started = running or self.last_termination is not None
        phase = self.phase if self.termination is not None else "Running" if started else "Pending"
        containers = [self._container_status(one, phase, ready=self.is_ready(now)) for one in pod["spec"]["containers"]]
        status: Raw = {
            "phase": phase,
            "conditions": self._conditions(pod, phase, ready=ready, containers_ready=self.is_ready(now), now=now),
            "hostIP": address,
            "hostIPs": [{"ip": address}],
            "startTime": (pod.get("status") or {}).get("startTime") or timestamp(self._to_wall_time(self.start_time)),
            "containerStatuses": containers,
        }
        if started:
            own = pod_address(self.uid)
            status |= {"podIP": own, "podIPs": [{"ip": own}]}
        return status

    def _are_readiness_gates_true(self, pod: Raw) -> bool:
        gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
        true = {one["type"] for one in (pod.get("status") or {}).get("conditions") or () if one["status"] == "True"}
        return true.issuperset(gates)

    def _container_status(self, container: Raw, phase: str, *, ready: bool) -> Raw:
        state: Raw
        if self.termination is not None:
            state = {"terminated": self.termination}
        elif self.running_since is not None:
            state = {"running": {"startedAt": timestamp(self._to_wall_time(self.running_since))}}
        elif self.last_termination is not None:
            message = f"back-off {int(self._backoff_seconds())}s restarting failed container={container['name']}"
            state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        else:
            state = {"waiting": {"reason": "ContainerCreating"}}
        return {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": self.running_since is not None,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": self.last_termination} if self.last_termination else {},
        }

    def _backoff_seconds(self) -> float:
        return min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (max(1, self.crashes) - 1))

    def _conditions(self, pod: Raw, phase: str, *, ready: bool, containers_ready: bool, now: float) -> list[Raw]:
        present = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
        reason_fields: dict[str, Any] = {}
        if phase == "Succeeded":
            reason_fields = {"reason": "PodCompleted"}
        elif not containers_ready:
            names = " ".join(one["name"] for one in pod["spec"]["containers"])
            reason_fields = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
        elif not ready:
            reason_fields = {"reason": "ReadinessGatesNotReady"}
        conditions = {
            "PodReadyToStartContainers": (phase != "Pending" and self.termination is None, {}),
            "Initialized": (True, {"reason": "PodCompleted"} if phase == "Succeeded" else {}),
            "Ready": (ready, reason_fields),
            "ContainersReady": (
                containers_ready,
                reason_fields if reason_fields.get("reason") != "ReadinessGatesNotReady" else {},
            ),
        }
        reported = []
        for type_, (holds, reason) in conditions.items():
            status = "True" if holds else "False"
            before = present.get(type_)
            since = (
                before["lastTransitionTime"]
                if before and before["status"] == status
                else timestamp(self._to_wall_time(now))
            )
            reported.append(
                {"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": since, **reason}
            )
        return reported + [one for type_, one in present.items() if type_ not in conditions]


def _phase_and_readiness(status: Raw) -> tuple[str, str]:
    ready = next((one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"), "")
    return status.get("phase", ""), ready


def pod_address(uid: str) -> str:
    """A stable address derived from the uid."""
    number = sum(uid.encode()) + int(uid.replace("-", "")[:8] or "0", 16)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
