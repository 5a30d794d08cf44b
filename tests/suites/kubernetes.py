"""Kubernetes' own end-to-end suite, against one simulated member."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import obtain_suites
from suites.kubectl_commands import run_kubectl_commands
from suites.peer_suite import Invocation
from suites.processes import start_fleet

AREAS = ("apimachinery", "apps", "auth", "kubectl", "scheduling", "node", "common/node")
"""Directories of the suite below `test/e2e`."""


class KubernetesSuite:
    name = "kubernetes"
    quick = ("apimachinery/watch", "apimachinery/watchlist")
    minutes_per_area = 30
    further_areas = {"cmd": run_kubectl_commands}

    def __init__(self) -> None:
        self.binary = obtain_suites.SUITES[self.name].directory / "e2e.test"

    def area_of(self, file: str) -> str:
        """`apimachinery/watch` for a file of that name; areas that need a real cluster are left out."""
        path = Path(file.rpartition("/e2e/")[2])
        return str(path.with_suffix("")) if str(path.parent) in AREAS else ""

    def focus_of(self, area: str) -> list[str]:
        return [f"--ginkgo.focus-file=/e2e/{area}.go"]

    @contextlib.contextmanager
    def start(self, directory: Path) -> Iterator[Invocation]:
        with start_fleet(directory, "--clusters=1", "--nodes=3") as fleet:
            command = [str(self.binary), f"--kubeconfig={fleet.kubeconfig}", "--context=member1", "--provider=skeleton"]
            yield Invocation(command, dict(os.environ))
