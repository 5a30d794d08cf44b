"""Events that simulated kubelets record about the containers of a pod, with the reasons and messages of real ones."""

from collections.abc import Iterable, Iterator
from itertools import chain

from trimtab.api.value import Raw
from trimtab.clock import Clock
from trimtab.controllers.contract import RecordEvent, Ref
from trimtab.runtime.effects.event_recorder import EventRecorder

EVENT_SOURCE = "kubelet"
_STATUS_FIELDS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class PodEvents:
    """Derives events from the status that was reported before; without a recorder there are none."""

    def __init__(self, recorder: EventRecorder | None, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def record_report(self, pod: Raw, status: Raw) -> None:
        """Record what has happened to the containers since the status that the pod had before this one."""
        if self._recorder is None:
            return
        before = {one["name"]: one for one in _container_statuses(pod.get("status") or {})}
        for now in _container_statuses(status):
            for reason, message, type_ in _changes(pod["metadata"], before.get(now["name"]) or {}, now):
                self._record(pod, reason, message, type_)

    def record_sandbox_error(self, pod: Raw, error: str) -> None:
        """Record why the container runtime does not create the sandbox of the pod."""
        message = f"Failed to create pod sandbox: rpc error: code = Unknown desc = {error}"
        self._record(pod, "FailedCreatePodSandBox", message, "Warning")

    def record_killing(self, pod: Raw, containers: Iterable[str]) -> None:
        """Record that these containers are stopped, because the pod is deleted."""
        for name in containers:
            self._record(pod, "Killing", f"Stopping container {name}", "Normal")

    def _record(self, pod: Raw, reason: str, message: str, type_: str) -> None:
        if self._recorder is not None:
            metadata = pod["metadata"]
            about = Ref("v1", "Pod", metadata["namespace"], metadata["name"], metadata["uid"])
            self._recorder.record(RecordEvent(about, reason, message, EVENT_SOURCE, type_), self._clock.now())


def _container_statuses(status: Raw) -> Iterator[Raw]:
    return chain.from_iterable(status.get(field) or () for field in _STATUS_FIELDS)


def _changes(pod: Raw, before: Raw, now: Raw) -> Iterator[tuple[str, str, str]]:
    """(reason, message, type) of the events between two reports about one container."""
    name, image = now["name"], now["image"]
    if _start_count(now) > _start_count(before):
        yield "Pulled", f'Container image "{image}" already present on machine', "Normal"
        yield "Created", f"Created container: {name}", "Normal"
        yield "Started", f"Started container {name}", "Normal"
    waiting = _waiting_state(now)
    if waiting.get("reason") == _waiting_state(before).get("reason"):
        return
    if waiting.get("reason") == "CrashLoopBackOff":
        where = f"{pod['name']}_{pod['namespace']}({pod['uid']})"
        yield "BackOff", f"Back-off restarting failed container {name} in pod {where}", "Warning"
    elif waiting.get("reason") == "ErrImagePull":
        yield "Failed", f'Failed to pull image "{image}": {waiting.get("message", "")}', "Warning"


def _start_count(status: Raw) -> int:
    """How often the container was started."""
    state = status.get("state") or {}
    ended = state.get("terminated") or {}
    has_run = "running" in state or "startedAt" in ended or bool((status.get("lastState") or {}).get("terminated"))
    return status["restartCount"] + 1 if has_run else 0


def _waiting_state(status: Raw) -> Raw:
    waiting: Raw = (status.get("state") or {}).get("waiting") or {}
    return waiting
