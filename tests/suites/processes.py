"""Starts `trimtab up` for a suite and waits until it is ready."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SECONDS_TO_START = 120
SECONDS_TO_STOP = 30


class RunningFleet(NamedTuple):
    kubeconfig: Path
    log: Path


@contextlib.contextmanager
def start_fleet(directory: Path, *flags: str) -> Iterator[RunningFleet]:
    """A control plane with simulated members, on free ports, until the context ends."""
    data, log = directory / "data", directory / "trimtab.log"
    command = [sys.executable, "-m", "trimtab", "up", "--data-dir", str(data), "--port", "0", *flags]
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_for_line(running, log, r"^trimtab is ready")
        yield RunningFleet(data / "kubeconfig", log)
    finally:
        stop(running)


def wait_for_line(running: subprocess.Popen[bytes], log: Path, pattern: str) -> None:
    begun = time.monotonic()
    while not re.search(pattern, log.read_text(errors="replace"), re.MULTILINE):
        if running.poll() is not None or time.monotonic() - begun > SECONDS_TO_START:
            raise SystemExit(f"{running.args} did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def stop(running: subprocess.Popen[bytes]) -> None:
    if running.poll() is None:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
