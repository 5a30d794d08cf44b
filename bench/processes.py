"""Server processes, and their CPU time and memory."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from trimtab.cli.support.garbage_collection import SteppedCollection

ROOT = Path(__file__).parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
TIMEOUT_SECONDS = 60.0
LOOP, LOOPS = 10_000, 101
SECONDS_BETWEEN_LOOPS = 0.1


def collect_garbage_as_servers_do() -> None:
    """Use the garbage collection of the long-running commands for a benchmark in this process."""
    SteppedCollection().start()


class MeasuredProcess:
    """A running command with a log file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._started = time.perf_counter()
        with log.open("wb") as out:
            self._child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        self.pid = self._child.pid

    def wait_for(self, text: str, timeout: float = TIMEOUT_SECONDS) -> float:
        """Wait for this text in the log; returns the seconds since the start."""
        while text not in self.log.read_text():
            if self._child.poll() is not None or time.perf_counter() - self._started > timeout:
                raise RuntimeError(f"{self._child.args!r} did not print {text!r}:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        return time.perf_counter() - self._started

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def mebibytes(self) -> float:
        return mebibytes(self.pid)

    def stop(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


@contextmanager
def run_process(command: Sequence[str], log: Path) -> Iterator[MeasuredProcess]:
    process = MeasuredProcess(command, log)
    try:
        yield process
    finally:
        process.stop()


def trimtab(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from trimtab.cli.main import main; main()", *arguments]


def cpu_seconds(*pids: int) -> float:
    """User and system time of these processes and of their current children."""
    return sum(_ticks(one) for pid in pids for one in (pid, *children(pid))) / TICKS


def mebibytes(*pids: int) -> float:
    """Resident memory, including children."""
    return round(sum(_resident(one) for pid in pids for one in (pid, *children(pid))) / 1024, 1)


def children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def loop_milliseconds() -> float:
    """The CPU time of a constant loop: on shared processors a CPU second may do twice as much work at one time as at another."""
    began = time.thread_time()
    sum(number & 3 for number in range(LOOP))
    return (time.thread_time() - began) * 1e3


class CpuSpeedProbe:
    """The current speed of the processor: the CPU time of a constant loop.

    On shared processors a CPU second may do twice as much work at one time as at another.
    """

    def __init__(self) -> None:
        self._loops: list[float] = []
        self._task = asyncio.create_task(self._run_loops())

    async def _run_loops(self) -> None:
        while True:
            self._loops.append(loop_milliseconds())
            await asyncio.sleep(SECONDS_BETWEEN_LOOPS)

    def stop(self) -> dict[str, float]:
        """The milliseconds of the fastest loop and of the middle one."""
        self._task.cancel()
        return {"best": round(min(self._loops), 3), "p50": round(median(self._loops), 3)}


def machine() -> dict[str, object]:
    """The machine of the figures; on a busy machine wall-clock times are useless."""
    loops = sorted(loop_milliseconds() for _ in range(LOOPS))
    return {
        "cores": os.cpu_count(),
        "loadAverage": [round(load, 1) for load in os.getloadavg()],
        "loopMs": round(loops[LOOPS // 2], 3),
    }
