"""The server processes of the chaos test, and what can be done to each of them."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load

TESTS = Path(__file__).resolve().parent.parent
START_SECONDS = 300.0
"""Long, because test machines are busy."""
NO_LIMIT = resource.getrlimit(resource.RLIMIT_FSIZE)
FULL_AT_BYTES = 100_000
"""No file of a process on a full disk grows beyond this size; its store is larger."""


class ServerProcess:
    """A process that serves an API on a fixed port, with its data in a directory, and can be started again."""

    def __init__(self, name: str, directory: Path, *arguments: str) -> None:
        self.name = name
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._arguments = arguments
        self._clock = directory / "clock"
        self.log = directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.offset = 0.0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def client(self) -> KubeClient:
        return KubeClient(load(self.kubeconfig))

    async def start(self) -> None:
        """Start the process, and wait until it serves."""
        written = self.log.stat().st_size if self.log.exists() else 0
        process = self._process = self._spawn()
        async with asyncio.timeout(START_SECONDS):
            while b"ready" not in self.log.read_bytes()[written:]:
                code = process.poll()
                assert code is None, f"{self.name} exited with {code}: {self.log_tail()}"
                await asyncio.sleep(0.1)

    def _spawn(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path, "SOAK_CLOCK": str(self._clock)}
        command = [sys.executable, "-m", "soak.process_main", *self._arguments]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """Kill the process as a crash would: nothing in it can react."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def jump_clock(self, seconds: float) -> None:
        """Move the clock of the process forwards or backwards, also for its later starts."""
        self.offset += seconds
        replacement = self._clock.with_suffix(".new")
        replacement.write_text(str(self.offset))
        replacement.replace(self._clock)

    def fill_disk(self) -> None:
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, NO_LIMIT[1]))

    def free_disk(self) -> None:
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, NO_LIMIT)

    def stop(self) -> None:
        """Stop the process if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self.kill()
