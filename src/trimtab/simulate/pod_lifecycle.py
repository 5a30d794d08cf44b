"""The state of one pod on its node, as a kubelet reports it: waiting, running, ready, crashing, terminated."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.simulate.behaviour import Behaviour

FIRST_BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 300.0
FORGIVEN_AFTER_SECONDS = 600.0
"""A container that ran for so long restarts without accumulated back-off."""
SOON = 1e-3


class Life:
    """The kubelet's state of one pod. Times are loop seconds; `to_wall_time` converts them to wall-clock times."""

    def __init__(self, pod: Pod, behaviour: Behaviour, now: float, wall: Callable[[float], datetime]) -> None:
        self.uid = pod.metadata.uid
        self.node = pod.spec.node_name
        self.behaviour = behaviour
        self._wall = wall
        self.born = now
        self.resume_at = now + behaviour.start
        self.running_since: float | None = None
        self.restarts = 0
        self.crashes = 0
        self.last: Raw | None = None
        self.ended: Raw | None = None
        """The final termination state of its containers."""
        self.phase = "Pending"
        self.leaving_at: float | None = None
        self.admitted = True
        self._restart_policy = pod.spec.restart_policy or "Always"
        if pod.status.phase == "Running":  # the pod started before this kubelet did
            self.running_since = now - behaviour.ready
            self.restarts = max((one.restart_count for one in pod.status.container_statuses), default=0)

    def advance(self, now: float) -> float | None:
        """Advance to `now`; returns the time of the next change, if any."""
        while self.ended is None:
            if self.running_since is None:
                if now + SOON < self.resume_at:
                    return self.resume_at
                self.running_since = self.resume_at
                self.restarts += self.last is not None
            ends_at, well = self._end()
            if ends_at is None or now + SOON < ends_at:
                ready_at = self.running_since + self.behaviour.ready
                waits = [moment for moment in (ends_at, ready_at) if moment is not None and now + SOON < moment]
                return min(waits, default=None)
            self._exit(ends_at, well=well)
        return None

    def _end(self) -> tuple[float | None, bool]:
        since, how = self.running_since or 0.0, self.behaviour
        if how.crash is not None and (how.run is None or how.crash < how.run):
            return since + how.crash, False
        return (None, True) if how.run is None else (since + how.run, True)

    def _exit(self, at: float, *, well: bool) -> None:
        since = self.running_since or at
        end = {
            "exitCode": 0 if well else self.behaviour.exit_code,
            "reason": "Completed" if well else self.behaviour.reason,
            "startedAt": timestamp(self._wall(since)),
            "finishedAt": timestamp(self._wall(at)),
        }
        self.running_since = None
        if self._restart_policy == "Never" or (self._restart_policy == "OnFailure" and well):
            self.phase, self.ended = ("Succeeded" if well else "Failed"), end
            return
        self.crashes = 1 if at - since >= FORGIVEN_AFTER_SECONDS else self.crashes + 1
        self.last = end
        pause = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (self.crashes - 1))
        self.resume_at = at + pause

    def interrupt(self, now: float) -> None:
        """Restart the containers, after the machine was down."""
        if self.ended is None and self.running_since is not None:
            self._exit(now, well=False)
            if self.ended is None:
                self.crashes, self.resume_at = 0, now + self.behaviour.start

    def stop(self, now: float) -> None:
        """Terminate on deletion."""
        self.running_since = None
        self.phase = "Failed"
        self.ended = {"exitCode": 137, "reason": "Error", "finishedAt": timestamp(self._wall(now))}

    def ready(self, now: float) -> bool:
        if self.running_since is None or not self.behaviour.healthy:
            return False
        return now + SOON >= self.running_since + self.behaviour.ready

    def status(self, pod: Raw, now: float, address: str) -> Raw:
        """The part of the pod status that the kubelet owns."""
        running = self.running_since is not None
        ready = self.ready(now) and self._gates_open(pod)
        started = running or self.last is not None
        phase = self.phase if self.ended is not None else "Running" if started else "Pending"
        containers = [self._container(one, phase, ready=self.ready(now)) for one in pod["spec"]["containers"]]
        status: Raw = {
            "phase": phase,
            "conditions": self._conditions(pod, phase, ready=ready, containers_ready=self.ready(now), now=now),
            "hostIP": address,
            "hostIPs": [{"ip": address}],
            "startTime": (pod.get("status") or {}).get("startTime") or timestamp(self._wall(self.born)),
            "containerStatuses": containers,
        }
        if started:
            own = pod_address(self.uid)
            status |= {"podIP": own, "podIPs": [{"ip": own}]}
        return status

    def _gates_open(self, pod: Raw) -> bool:
        gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
        true = {one["type"] for one in (pod.get("status") or {}).get("conditions") or () if one["status"] == "True"}
        return true.issuperset(gates)

    def _container(self, container: Raw, phase: str, *, ready: bool) -> Raw:
        state: Raw
        if self.ended is not None:
            state = {"terminated": self.ended}
        elif self.running_since is not None:
            state = {"running": {"startedAt": timestamp(self._wall(self.running_since))}}
        elif self.last is not None:
            message = f"back-off {int(self._pause())}s restarting failed container={container['name']}"
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
            "lastState": {"terminated": self.last} if self.last else {},
        }

    def _pause(self) -> float:
        return min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (max(1, self.crashes) - 1))

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
            "PodReadyToStartContainers": (phase != "Pending" and self.ended is None, {}),
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
                before["lastTransitionTime"] if before and before["status"] == status else timestamp(self._wall(now))
            )
            reported.append(
                {"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": since, **reason}
            )
        return reported + [one for type_, one in present.items() if type_ not in conditions]


def pod_address(uid: str) -> str:
    """A stable address derived from the uid."""
    number = sum(uid.encode()) + int(uid.replace("-", "")[:8] or "0", 16)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
