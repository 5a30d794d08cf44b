"""The state of one container on its node: waiting, running, ready, ended, restarted with back-off."""

from collections.abc import Callable
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.simulate.containers.probes import NEVER, ProbeState, can_change, check_once
from trimtab.simulate.containers.process import ContainerLog, Process
from trimtab.simulate.containers.programs import ContainerContext, Launch, find_launch, pull_error
from trimtab.simulate.kubelets.behaviour import Behaviour

FIRST_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
BACKOFF_RESET_SECONDS = 600.0
"""A container that ran for so long restarts without accumulated back-off."""
TIME_TOLERANCE_SECONDS = 1e-3
PROBE_KILL_EXIT_CODE = 137
MAX_MESSAGE_CHARACTERS = 4096
MESSAGE_LOG_LINES = 80


class ContainerLifecycle:
    """The kubelet's state of one container. Times are loop seconds."""

    def __init__(
        self,
        container: Raw,
        restart_policy: str,
        behaviour: Behaviour,
        to_wall_time: Callable[[float], datetime],
        context_of: Callable[[Raw], ContainerContext | None] = lambda _: None,
    ) -> None:
        self.container = container
        self.name: str = container["name"]
        self.restart_policy = restart_policy
        self.behaviour = behaviour
        self._context_of = context_of
        self.context: ContainerContext | None = None
        self.launch: Launch | None = None
        self._to_wall_time = to_wall_time
        self.resume_at: float | None = None
        """When it starts or restarts; None before its turn has come."""
        self.running_since: float | None = None
        self.restarts = 0
        self.crashes = 0
        self.last_termination: Raw | None = None
        self.termination: Raw | None = None
        """The final termination state."""
        self.pull_error = ""
        self.process: Process | None = None
        self.previous_log: ContainerLog | None = None
        self._readiness: ProbeState | None = None
        self._liveness: ProbeState | None = None
        self._startup: ProbeState | None = None

    @property
    def is_started(self) -> bool:
        """Whether it runs and its startup probe, if any, has succeeded."""
        return self.running_since is not None and (self._startup is None or self._startup.holds)

    @property
    def steps_done(self) -> int:
        """How much its program and probes have done since it started."""
        return self.context.effort.total if self.context is not None else 0

    @property
    def has_run(self) -> bool:
        return self.running_since is not None or self.last_termination is not None or self.termination is not None

    @property
    def has_succeeded(self) -> bool:
        return self.termination is not None and self.termination["exitCode"] == 0

    def schedule(self, at: float) -> None:
        """Let it start at this time."""
        if self.resume_at is None and self.running_since is None:
            self.resume_at = at

    def mark_running(self, since: float, restarts: int) -> None:
        """Continue a container that started before this kubelet did."""
        self.resume_at = since
        self._start(since)
        self.restarts = restarts

    def advance(self, now: float) -> float | None:
        """Advance to `now`; returns the time of the next change, if any."""
        while self.termination is None and self.resume_at is not None:
            if self.running_since is None:
                if now + TIME_TOLERANCE_SECONDS < self.resume_at:
                    return self.resume_at
                if error := pull_error(self.container.get("image", "")):
                    self.pull_error = error
                    return None
                self._start(self.resume_at)
            ends_at, code, reason, looks_at = self._next_end(now)
            if ends_at is None or now + TIME_TOLERANCE_SECONDS < ends_at:
                return self._next_change(now, ends_at, looks_at)
            self._exit(ends_at, code, reason)
        return None

    def _start(self, at: float) -> None:
        self.running_since = at
        self.pull_error = ""
        self.restarts += self.last_termination is not None
        self.context = self._context_of(self.container)
        if self.context is None:
            return
        self.launch = find_launch(self.container, self.context)
        if self.launch is not None and self.behaviour.runs_program:
            self.process = Process(self.launch.program, at, self.context.effort)
        self._readiness = self._probe("readinessProbe", at, initially=False)
        self._liveness = self._probe("livenessProbe", at, initially=True)
        self._startup = self._probe("startupProbe", at, initially=False)

    def _probe(self, field: str, at: float, *, initially: bool) -> ProbeState | None:
        probe, context = self.container.get(field), self.context
        if not probe or context is None:
            return None
        return ProbeState(
            probe,
            at,
            lambda one: check_once(one, self.container, self.launch, context),
            initially=initially,
            constant=not can_change(probe, self.launch),
        )

    def _next_end(self, now: float) -> tuple[float | None, int, str, float | None]:
        """(when it ends, exit code, reason, when to look again)."""
        since, behaviour = self.running_since or 0.0, self.behaviour
        if behaviour.crash is not None and (behaviour.run is None or behaviour.crash < behaviour.run):
            return since + behaviour.crash, behaviour.exit_code, behaviour.reason, None
        looks_at = self._advance_probes(now)
        if self._liveness is not None and self._liveness.has_failed:
            return now, PROBE_KILL_EXIT_CODE, "Error", None
        if self._startup is not None and self._startup.has_failed:
            return now, PROBE_KILL_EXIT_CODE, "Error", None
        if self.process is not None:
            wakes_at = self.process.advance(now)
            if self.process.exit_code is not None:
                code = self.process.exit_code
                return self.process.ended_at, code, "Completed" if code == 0 else "Error", None
            return None, 0, "", min(one for one in (looks_at, wakes_at, NEVER) if one is not None)
        ends_at = None if behaviour.run is None else since + behaviour.run
        return ends_at, 0, "Completed", looks_at

    def _advance_probes(self, now: float) -> float | None:
        """Evaluate the probes that are due; returns when the next one is."""
        if self._startup is not None and not self._startup.holds:
            if not self._startup.advance(now):
                return self._startup.next_at
            for probe in (self._readiness, self._liveness):
                if probe is not None:
                    probe.next_at = max(probe.next_at, now)
        probes = [probe for probe in (self._readiness, self._liveness) if probe is not None]
        for probe in probes:
            probe.advance(now)
        return min((probe.next_at for probe in probes), default=None)

    def _next_change(self, now: float, ends_at: float | None, looks_at: float | None) -> float | None:
        ready_at = (self.running_since or 0.0) + self.behaviour.ready
        soon = now + TIME_TOLERANCE_SECONDS
        waits = [moment for moment in (ends_at, ready_at) if moment is not None and moment != NEVER and soon < moment]
        if looks_at is not None and looks_at != NEVER:
            waits.append(max(looks_at, soon))  # never dropped: a timer that fires too early must fire again
        return min(waits, default=None)

    def _exit(self, at: float, code: int, reason: str) -> None:
        since = self.running_since or at
        end = {
            "exitCode": code,
            "reason": reason,
            "startedAt": timestamp(self._to_wall_time(since)),
            "finishedAt": timestamp(self._to_wall_time(at)),
        }
        self.running_since = None
        if self.process is not None:
            self.process.log.finish(at)
        if message := self._termination_message(code):
            end["message"] = message
        if self.restart_policy == "Never" or (self.restart_policy == "OnFailure" and code == 0):
            self.termination = end
            return
        self.previous_log = self.process.log if self.process is not None else None
        self.crashes = 1 if at - since >= BACKOFF_RESET_SECONDS else self.crashes + 1
        self.last_termination = end
        self.resume_at = at + self.backoff_seconds()

    def _termination_message(self, code: int) -> str:
        """What the program left in its message file, or else the end of its log if it failed and asks for that."""
        path = self.container.get("terminationMessagePath") or "/dev/termination-log"
        message = (self.context.files.read(path) or "") if self.context is not None else ""
        wants_log = self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if not message and wants_log and code != 0 and self.process is not None:
            message = "\n".join(line.text for line in list(self.process.log.lines)[-MESSAGE_LOG_LINES:])
        return message[:MAX_MESSAGE_CHARACTERS]

    def interrupt(self, now: float) -> None:
        """Restart it, after the machine was down."""
        if self.termination is None and self.running_since is not None:
            self._exit(now, self.behaviour.exit_code, self.behaviour.reason)
            if self.termination is None:
                self.crashes, self.resume_at = 0, now + self.behaviour.start

    def stop(self, now: float, code: int = 137, reason: str = "Error") -> None:
        """End it for good, on deletion of the pod or at its deadline."""
        if self.termination is not None:
            return
        end: Raw = {"exitCode": code, "reason": reason}
        if self.running_since is not None:
            end["startedAt"] = timestamp(self._to_wall_time(self.running_since))
        self.running_since = None
        self.termination = {**end, "finishedAt": timestamp(self._to_wall_time(now))}

    def termination_seconds(self) -> float:
        """How long its program runs on after SIGTERM."""
        return self.launch.termination_seconds() if self.launch is not None and self.running_since is not None else 0.0

    def change_image(self, container: Raw, now: float) -> None:
        """Restart it with a new image."""
        self.container = container
        if self.termination is not None:
            return
        if self.running_since is not None:
            policy, self.restart_policy = self.restart_policy, "Always"
            self._exit(now, PROBE_KILL_EXIT_CODE, "Error")
            self.restart_policy = policy
        self.pull_error = ""
        self.crashes = 0  # back-off is that of an image
        if self.resume_at is not None:
            self.resume_at = now

    def is_ready(self, now: float) -> bool:
        if self.running_since is None or not self.behaviour.healthy or not self.is_started:
            return False
        if self._readiness is not None and not self._readiness.holds:
            return False
        return now + TIME_TOLERANCE_SECONDS >= self.running_since + self.behaviour.ready

    def backoff_seconds(self) -> float:
        return min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** (max(1, self.crashes) - 1))

    def status(self, now: float, *, ready: bool, waiting_reason: str = "ContainerCreating") -> Raw:
        return {
            "name": self.name,
            "image": self.container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": self.is_started,
            "restartCount": self.restarts,
            "state": self._state(waiting_reason),
            "lastState": {"terminated": self.last_termination} if self.last_termination else {},
        }

    def _state(self, waiting_reason: str) -> Raw:
        if self.termination is not None:
            return {"terminated": self.termination}
        if self.running_since is not None:
            return {"running": {"startedAt": timestamp(self._to_wall_time(self.running_since))}}
        if self.pull_error:
            return {"waiting": {"reason": "ErrImagePull", "message": self.pull_error}}
        if self.last_termination is not None:
            message = f"back-off {int(self.backoff_seconds())}s restarting failed container={self.name}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        return {"waiting": {"reason": waiting_reason}}
