"""Runs pytest in forked processes that have imported pytest, its plugins and the dependencies already.

A removal costs the import of Trimtab and the tests themselves, nothing else: starting an interpreter and importing pytest and
the dependencies takes longer than most of these tests. Nothing of Trimtab is imported before the fork, so a process sees only
the copy of the package that it is given.
"""

import contextlib
import gc
import importlib
import importlib.metadata
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import pytest

from mutants.mutant import ROOT

TESTS_FAILED = 1
"""The exit code of pytest when tests ran and failed; any other code is no proof."""
DEPENDENCIES = (
    "aiohttp",
    "asyncio",
    "click",
    "cronsim",
    "cryptography.x509",
    "cryptography.hazmat.primitives.serialization",
    "httptools",
    "jinja2",
    "lupa",
    "msgspec",
    "numpy",
    "orjson",
    "sqlite3",
    "uvicorn",
    "uvloop",
    "yaml",
)


class TestRun(NamedTuple):
    """The tests of one process, and the directory from which it imports `trimtab`."""

    tests: tuple[str, ...]
    package_parent: Path
    bytecode: Path
    """The directory in which it caches bytecode."""


class TestResult(NamedTuple):
    """How pytest ended."""

    code: int
    output: str
    seconds: float


class StartedRun(NamedTuple):
    """A process in progress."""

    process: BaseProcess
    output: Path
    start: float


def import_dependencies() -> None:
    """Import everything that tests need and that no removal changes."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads before the fork
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        plugin.load()
    for name in DEPENDENCIES:
        importlib.import_module(name)
    ours = sorted(name for name in sys.modules if name.partition(".")[0] == "trimtab")
    if ours:
        raise RuntimeError(f"a dependency imports Trimtab before the fork: {ours[0]}")
    gc.collect()
    gc.freeze()  # the forked processes neither examine nor copy what is imported by now


def run_all(
    count: int, prepare: Callable[[int, int], TestRun], jobs: int, seconds: float
) -> Iterator[tuple[int, TestResult]]:
    """Run `count` test runs, `jobs` at a time, and yield each with its number as it ends.

    `prepare` is called with the number of the run and that of its job just before it starts; no two runs in progress have
    the same job, so a job may have a directory of its own that it changes from run to run.
    """
    context = multiprocessing.get_context("fork")
    waiting = iter(range(count))
    free, running = list(range(jobs)), dict[BaseProcess, tuple[int, int, StartedRun]]()
    with tempfile.TemporaryDirectory(prefix="mutant-output-") as directory:
        while True:
            while free and (number := next(waiting, None)) is not None:
                job = free.pop()
                output = Path(directory) / str(number)
                process = context.Process(target=run_pytest, args=(prepare(number, job), output))
                process.start()
                running[process] = number, job, StartedRun(process, output, time.monotonic())
            if not running:
                return
            for number, job, result in wait_for_results(running, seconds):
                free.append(job)
                yield number, result


def wait_for_results(
    running: dict[BaseProcess, tuple[int, int, StartedRun]], seconds: float
) -> Iterator[tuple[int, int, TestResult]]:
    """Wait until a run ends or exceeds its time, and remove it from `running`."""
    first_end = min(started.start for _, _, started in running.values()) + seconds
    multiprocessing.connection.wait(
        [process.sentinel for process in running], timeout=max(0.0, first_end - time.monotonic())
    )
    for process, (number, job, started) in list(running.items()):
        elapsed = time.monotonic() - started.start
        if process.exitcode is None and elapsed < seconds:
            continue
        del running[process]
        if process.exitcode is None:
            yield number, job, TestResult(TESTS_FAILED, "the tests did not end in time", elapsed)
        else:
            yield number, job, TestResult(process.exitcode, started.output.read_text()[-4000:], elapsed)
        end_group(process)


def end_group(process: BaseProcess) -> None:
    """End a run and the processes that its tests started and left behind."""
    assert process.pid is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def run_pytest(run: TestRun, output: Path) -> None:
    """The body of a forked process; it ends with the exit code of pytest."""
    os.setsid()
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(ROOT)
    sys.path.insert(0, str(run.package_parent))
    os.environ["PYTHONPATH"] = str(run.package_parent)  # for the processes that tests start
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(run.bytecode)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["HYPOTHESIS_PROFILE"] = "unshrunk"
    paths = [str(ROOT / "tests" / test) for test in run.tests]
    code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=short", *paths]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without waiting for threads that a failed test has left
