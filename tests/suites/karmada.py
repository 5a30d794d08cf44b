"""Karmada's own suite, against a control plane in the profile `upstream` with two Push members and one Pull member."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import obtain_suites
from suites.docker import Docker
from suites.interpreter_example import start_example
from suites.peer_suite import ALL_SPECS, Invocation
from suites.processes import start_fleet

EXAMPLE, AREA_OF_EXAMPLE = "interpreter-webhook-example", "resourceinterpreter"
"""The example serves metrics on a fixed port, so it runs only for the area that calls it: others may run at once."""
MEMBERS = ("member1", "member2", "member3")
FLAGS = (
    "--profile=upstream",
    "--pull=1",
    "--system-workloads",
    "--context=karmada-apiserver",
    "--context=karmada-host",
    "--feature-gates=AllAlpha=true",
    "--allow-no-execute-taint-policy",
    "--bootstrap-tokens",
    # What the deployment for Karmada's own end-to-end tests sets: --failover-eviction-timeout and the thresholds.
    "--set=evacuate-after-seconds=30",
    "--set=cluster-failure-threshold=10",
    "--set=cluster-success-threshold=10",
)


class KarmadaSuite:
    name = "karmada"
    quick = ("overridepolicy", "tainttoleration", "preemption")
    minutes_per_area = 30
    further_areas = {}

    def __init__(self) -> None:
        self._programs = obtain_suites.SUITES[self.name].directory
        self._source = self._programs.parent / "source"
        self.binary = self._programs / "base.test"

    def area_of(self, file: str) -> str:
        return Path(file).stem.removesuffix("_test")

    def focus_of(self, area: str) -> list[str]:
        return [f"--ginkgo.focus-file=/{area}_test.go"]

    def specs_of(self, area: str) -> str:
        return ALL_SPECS

    @contextlib.contextmanager
    def start(self, directory: Path, area: str) -> Iterator[Invocation]:
        home, tools, containers = (directory / name for name in ("home", "tools", "containers"))
        (home / ".kube").mkdir(parents=True, exist_ok=True)
        write_docker(tools)
        with contextlib.ExitStack() as stack:
            fleet = stack.enter_context(start_fleet(directory, f"--fleet={write_fleet(directory)}", *FLAGS))
            stack.enter_context(removed_containers(containers))
            data = fleet.kubeconfig.parent
            if area == AREA_OF_EXAMPLE:
                stack.enter_context(start_example(self._programs / EXAMPLE, self._source, data, MEMBERS))
            environment = {
                **os.environ,
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                "TRIMTAB_CONTAINERS": str(containers),
                "HOME": str(home),
                "KUBECONFIG": str(fleet.kubeconfig),
                "GOPATH": str(self._programs.parent),  # the suite runs bin/karmadactl of it
                "GOFLAGS": "-mod=mod",
                "PULL_BASED_CLUSTERS": f"{MEMBERS[-1]}:{fleet.kubeconfig}",
            }
            polling = ["--poll-interval=500ms", "--poll-timeout=100s"]
            yield Invocation([str(self.binary), *polling], environment)


def write_fleet(directory: Path) -> Path:
    """One node per cluster, as with kind, of the size of real machines: by resource models it counts as the least of its grade.

    A spec fills a cluster with at most fifty workloads of 200 milli-CPUs, which need less than the ten CPUs of a node.

    The scheduler of Karmada compares a request of memory without a binary suffix in thousandths of a byte with capacity in bytes. The
    components of Flink, whose requests become such numbers, therefore fit only into a thousand times of what they need.
    """
    path = directory / "fleet.json"
    members = [{"name": name, "nodes": 1, "cpu": "10", "memory": "512Gi"} for name in MEMBERS]
    path.write_text(json.dumps({"members": members}))
    return path


def write_docker(directory: Path) -> None:
    """A command `docker` that starts simulated clusters, for kind, which the suite calls."""
    directory.mkdir(parents=True, exist_ok=True)
    command = directory / "docker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("docker.py")} "$@"\n')
    command.chmod(0o755)


@contextlib.contextmanager
def removed_containers(directory: Path) -> Iterator[None]:
    """At the end there are no clusters left that a failed spec did not delete."""
    try:
        yield
    finally:
        for container in Docker(directory).containers:
            container.remove()
