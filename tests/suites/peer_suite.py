"""What the runner needs to know about a suite of a peer."""

import subprocess
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from suites.specs import SpecResult


class Invocation(NamedTuple):
    """How to start the test binary for some areas."""

    command: list[str]
    environment: dict[str, str]


ALL_SPECS = "."
"""Without any focus Kubernetes' suite leaves out the specs of optional features."""
RunArea = Callable[[Path, str], list[SpecResult]]
"""(directory for its files, regular expression for names) -> results"""


class PeerSuite(Protocol):
    """A suite that is one ginkgo binary; `tests/suites/karmada.py` is an example."""

    name: str
    binary: Path
    quick: tuple[str, ...]
    """Areas that are run with every change."""
    minutes_per_area: int
    further_areas: Mapping[str, RunArea]
    """Areas that are not part of the binary, by name."""

    def area_of(self, file: str) -> str:
        """The area to which the specs of a source file belong; empty for those that are never run."""

    def focus_of(self, area: str) -> list[str]:
        """The flags that select the specs of an area."""

    def specs_of(self, area: str) -> str:
        """A regular expression for the names of the specs that are run, if the caller asks for none."""

    def start(self, directory: Path, area: str) -> AbstractContextManager[Invocation]:
        """Start what the area runs against, with its data in the directory, and stop it at the end."""


def run_to_end(
    command: list[str], environment: dict[str, str], log: Path, seconds: float, directory: Path | None = None
) -> None:
    """Run a command with its output in a file. After the time it is interrupted, so that it writes its report."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=directory or log.parent
        ) as running,
    ):
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.terminate()
            try:
                running.wait(60)
            except subprocess.TimeoutExpired:
                running.kill()
