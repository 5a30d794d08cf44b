"""Readiness, liveness and startup probes of a simulated container, evaluated at their period."""

from collections.abc import Callable
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.server.admission.dynamic.service_calls import ServerRequest
from trimtab.simulate.containers.programs import ContainerContext, Launch
from trimtab.simulate.containers.shell import Run, Shell
from trimtab.simulate.containers.shell_state import MAX_STEPS_WITHOUT_SLEEP, Exit
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

NEVER = float("inf")
MAX_SECONDS = 60.0
"""A command that sleeps longer has failed, as by a timeout."""
MAX_CHECKS_AT_ONCE = 10


class ProbeTimes(NamedTuple):
    initial_delay: float
    period: float
    success_threshold: int
    failure_threshold: int


def times_of(probe: Raw) -> ProbeTimes:
    return ProbeTimes(
        float(probe.get("initialDelaySeconds") or 0),
        float(probe.get("periodSeconds") or 10),
        int(probe.get("successThreshold") or 1),
        int(probe.get("failureThreshold") or 3),
    )


def check_once(probe: Raw, container: Raw, launch: Launch | None, context: ContainerContext) -> bool:
    """The result of one check. What is not simulated succeeds, because nothing is known about it."""
    if probe.get("exec") is not None:
        return _run_command(probe["exec"].get("command") or [], context)
    if launch is None:
        return True
    if launch.server is None:
        return False  # the program listens on no port
    request = probe.get("httpGet")
    declared = {one.get("name") or "": one["containerPort"] for one in container.get("ports") or ()}
    port = (request or probe.get("tcpSocket") or probe.get("grpc") or {}).get("port", 0)
    number = port if isinstance(port, int) else declared.get(port, 0)
    if number and launch.server.ports and number not in {*launch.server.ports, *declared.values()}:
        return False
    if request is None:
        return True
    path, is_tls = (request.get("path") or "/").partition("?")[0], request.get("scheme") == "HTTPS"
    return 200 <= launch.server.respond(ServerRequest(path, port=number, tls=is_tls)).status < 400


def _run_command(command: list[str], context: ContainerContext) -> bool:
    """Whether the command exits with 0; time that it sleeps is ignored, unless it does not end."""
    if not command:
        return True
    shell = Shell(dict(context.environment), context.files, context.rng, lambda _: None)
    try:
        return _ends_well(shell, shell.call(command, lambda _: None))
    finally:
        context.effort.total += shell.effort.total


def _ends_well(shell: Shell, run: Run) -> bool:
    try:
        slept = 0.0
        while slept <= MAX_SECONDS and shell.effort.total <= MAX_STEPS_WITHOUT_SLEEP:
            slept += next(run)
    except StopIteration as end:
        return bool(end.value == 0)
    except Exit as end:
        return end.code == 0
    except UnsupportedScript:
        return True
    return False


def can_change(probe: Raw, launch: Launch | None) -> bool:
    """Whether later checks may give another result than the first one."""
    return probe.get("exec") is not None or (launch is not None and launch.server is not None)


class ProbeState:
    """The result of one probe so far, from the start of its container."""

    def __init__(
        self, probe: Raw, began: float, check: Callable[[Raw], bool], *, initially: bool, constant: bool = False
    ) -> None:
        self._probe, self._check, self._constant = probe, check, constant
        self._times = times_of(probe)
        self.next_at = began + self._times.initial_delay
        self.holds = initially
        self.has_failed = False
        """Whether it failed as often in a row as its threshold."""
        self._streak: tuple[bool, int] = (initially, 0)

    def advance(self, now: float) -> bool:
        """Check as often as is due; returns whether it holds."""
        while self.next_at <= now:
            result = self._check(self._probe)
            before, count = self._streak
            self._streak = (result, count + 1 if before == result else 1)
            if result and self._streak[1] >= self._times.success_threshold:
                self.holds, self.has_failed = True, False
            elif not result and self._streak[1] >= self._times.failure_threshold:
                self.holds, self.has_failed = False, True
            if self._constant and self._is_decided(result):
                self.next_at = NEVER
                break
            threshold = min(self._times.failure_threshold, MAX_CHECKS_AT_ONCE)
            periods = max(1, int((now - self.next_at) // self._times.period) - threshold)
            self.next_at += periods * self._times.period
        return self.holds

    def _is_decided(self, result: bool) -> bool:
        limit = self._times.success_threshold if result else self._times.failure_threshold
        return self._streak[1] >= limit
