"""Runs users' Lua scripts in a separate process, so that a script that does not end can be killed.

`LuaWorker` is called like `interpret.lua.sandbox.run_script`, and blocks; `submit` does not block the event loop.
`python -m trimtab.runtime.lua_worker` is the worker process.
"""

import asyncio
import hashlib
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

import msgspec

from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult, run_script
from trimtab.interpret.operations import InterpreterFailure

_LENGTH = struct.Struct(">I")
_START_SECONDS = 30.0
_ADDRESS_SPACE = 1 << 30
_MAX_QUARANTINED = 1000


class ScriptJob(msgspec.Struct):
    """One call of a script, as sent to the worker process."""

    script: str
    hook: str
    arguments: list[Any]
    instructions: int
    memory: int
    now: int
    seconds: float


class ScriptOutcome(msgspec.Struct):
    """The result of a call: values, or a reason and a message."""

    values: list[Any] = []
    printed: list[str] = []
    reason: str = ""
    message: str = ""


class _WorkerLost(Exception):
    """The worker process has exited or does not respond; the arguments are a reason and a message."""


class LuaWorker:
    """One worker process, started when first needed and again after each script that had to be killed.

    A script that exceeded the deadline is not run again for a while: a thousand objects of its kind would otherwise
    take a thousand deadlines.
    """

    def __init__(self, *, seconds: float = 1.0, quarantine_seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._quarantine_seconds = quarantine_seconds
        self._quarantined: dict[bytes, tuple[float, InterpreterFailure]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __call__(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> ScriptResult | InterpreterFailure:
        """Blocks for at most the deadline (and, the first time, for the start of the process)."""
        digest = hashlib.sha256(script.encode()).digest()
        with self._lock:
            until, fault = self._quarantined.get(digest, (0.0, None))
            if fault is not None and time.monotonic() < until:
                return fault
            outcome = self._run(script, hook, arguments, limits)
            if isinstance(outcome, InterpreterFailure) and outcome.reason in ("DeadlineExceeded", "ScriptCrashed"):
                self._quarantine(digest, outcome)
            return outcome

    async def submit(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> ScriptResult | InterpreterFailure:
        """Run the script in a thread, without blocking the event loop."""
        return await asyncio.to_thread(self, script, hook, arguments, limits)

    def close(self) -> None:
        """Kill the process; the next call starts another."""
        with self._lock:
            self._kill()

    def _quarantine(self, digest: bytes, fault: InterpreterFailure) -> None:
        if len(self._quarantined) >= _MAX_QUARANTINED:
            self._quarantined.clear()
        message = f"{fault.message}; not tried again for {self._quarantine_seconds:g} s"
        self._quarantined[digest] = (
            time.monotonic() + self._quarantine_seconds,
            InterpreterFailure(fault.reason, message),
        )

    def _run(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits
    ) -> ScriptResult | InterpreterFailure:
        now = limits.now or int(time.time())
        job = ScriptJob(script, hook, list(arguments), limits.instructions, limits.memory, now, self._seconds)
        try:
            process = self._running_process()
            _write(_open_pipe(process.stdin), job)
            outcome = msgspec.json.decode(self._read(process, self._seconds), type=ScriptOutcome)
        except _WorkerLost as lost:
            self._kill()
            return InterpreterFailure(*lost.args)
        except BrokenPipeError:
            self._kill()
            return InterpreterFailure("ScriptCrashed", f"the worker exited while it received {hook}")
        if outcome.reason:
            return InterpreterFailure(outcome.reason, outcome.message)
        return ScriptResult(tuple(outcome.values), tuple(outcome.printed))

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trimtab.runtime.lua_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
            },  # do not pass on secrets from our environment
        )
        self._read(self._process, _START_SECONDS)
        return self._process

    def _read(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """One whole frame, or `_Lost`."""
        deadline = time.monotonic() + seconds
        descriptor, received = _open_pipe(process.stdout).fileno(), b""
        while len(received) < _LENGTH.size or len(received) < _LENGTH.size + _LENGTH.unpack_from(received)[0]:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
                raise _WorkerLost("DeadlineExceeded", f"the script ran for more than {seconds:g} s and was killed")
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise _WorkerLost("ScriptCrashed", "the script crashed its worker process")
            received += chunk
        return received[_LENGTH.size :]

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


def _open_pipe(stream: Any) -> Any:
    assert stream is not None
    return stream


def _write(stream: BinaryIO, message: ScriptJob | ScriptOutcome) -> None:
    body = msgspec.json.encode(message)
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def _serve(requests: BinaryIO, responses: BinaryIO) -> None:
    """Run one job after the other until the parent closes the pipe."""
    _write(responses, ScriptOutcome())
    while header := requests.read(_LENGTH.size):
        job = msgspec.json.decode(requests.read(_LENGTH.unpack(header)[0]), type=ScriptJob)
        # No handler: the alarm kills the process even inside C code, so a worker does not outlive a dead parent.
        signal.setitimer(signal.ITIMER_REAL, 2 * job.seconds)
        outcome = run_script(job.script, job.hook, job.arguments, LuaLimits(job.instructions, job.memory, job.now))
        signal.setitimer(signal.ITIMER_REAL, 0)
        if isinstance(outcome, InterpreterFailure):
            _write(responses, ScriptOutcome(reason=outcome.reason, message=outcome.message))
        else:
            _write(responses, ScriptOutcome(values=list(outcome.values), printed=list(outcome.printed)))


def main() -> None:
    """Run the worker process."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    _serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
