"""Every command of docs/how-to/run-on-kubernetes.md runs, in the order of the page, on a real cluster with simulated nodes."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distribution.tools import ROOT, tool
from kube.fleet import ENTRY, LoopThread, RealMember
from kube.rig import RealControlPlane, RigUnavailable, binaries_directory, free_port

from trimtab.simulate.fleet import flows_fleet

PAGE = ROOT / "docs" / "how-to" / "run-on-kubernetes.md"
ELSEWHERE = {
    "make image": "tests/distribution/test_image.py builds it",
    "skopeo copy": "there is no registry",
}
"""Commands that other tests run, or that cannot run here."""
LONG_RUNNING = "trimtab controllers"
READY = "controllers are ready"
SECONDS = 900


def commands_of(page: Path) -> list[str]:
    """The lines of the blocks without a language; a backslash continues a line."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks).replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def is_run_elsewhere(command: str) -> bool:
    return any(command.startswith(start) for start in ELSEWHERE)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMember]:
    """A cluster with nodes, so that the pods of the Deployments become ready."""
    try:
        binaries_directory()
    except RigUnavailable as reason:
        pytest.fail(f"{reason}; run `make kube`")
    plan, loop = flows_fleet(), LoopThread()
    cluster = RealMember(plan.members[0], plan, tmp_path_factory.mktemp("page"), pods=True)
    loop.run(cluster.start())
    try:
        yield cluster
    finally:
        loop.run(cluster.stop())
        loop.close()


@pytest.fixture(scope="module")
def workplace(host: RealMember, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A directory with the files that the page names, and programs by the names that it uses."""
    folder = tmp_path_factory.mktemp("workplace")
    with RealControlPlane("member1", folder, controllers=True) as member:
        (folder / "charts").symlink_to(ROOT / "charts")
        for name in ("host.yaml", "F"):
            (folder / name).write_bytes(host.plane.kubeconfig.read_bytes())
        (folder / "member1.yaml").write_bytes(member.kubeconfig.read_bytes())
        programs = folder / "bin"
        programs.mkdir()
        (programs / "helm").symlink_to(tool("helm"))
        (programs / "kubectl").symlink_to(host.plane.kubectl[0])
        (programs / "trimtab").write_text(f"#!{sys.executable}\n{ENTRY}\n")
        (programs / "trimtab").chmod(0o755)
        search = f"{programs}{os.pathsep}{os.environ['PATH']}"
        yield folder, {**os.environ, "PATH": search, "KUBECONFIG": str(folder / "host.yaml")}


def test_every_command_of_the_page_runs(workplace: tuple[Path, dict[str, str]]) -> None:
    folder, environment = workplace
    seen = []
    for command in commands_of(PAGE):
        if is_run_elsewhere(command):
            continue
        if command.startswith("helm install trimtab-crds") and any("install trimtab-crds" in one for one in seen):
            run("helm uninstall trimtab-crds -n trimtab-system", folder, environment)  # the page shows an alternative
        if command.startswith(LONG_RUNNING):
            run_until_ready(command, folder, environment)
        else:
            run(command, folder, environment)
        seen.append(command)
    for start in ("helm install trimtab ", "trimtab install", "trimtab join ", "trimtab join-command", "helm upgrade"):
        assert any(command.startswith(start) for command in seen), f"the page shows no {start!r}"


def run(command: str, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def run_until_ready(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Start it, wait until it works, and end it as a user does."""
    words = [*command.replace("127.0.0.1:8081", f"127.0.0.1:{free_port()}").split()]
    log = folder / "controllers.log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out)
        deadline = time.monotonic() + SECONDS
        try:
            # The controllers that helm installed are simulated pods: nobody holds the Lease.
            while READY not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert process.returncode == 0, log.read_text()
