"""Users of `trimtab up` reach a real member through the cluster proxy with their own identity and stock kubectl."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kube.rig import RealControlPlane, kubectl

from cli.processes import PROXY, eventually, up
from trimtab.cli.commands.join import command as join

RunKubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def member_kubectl(member: RealControlPlane, tmp_path: Path) -> Iterator[RunKubectl]:
    """kubectl through the cluster proxy to a joined member."""
    with up(tmp_path / "up", "--no-fleet") as config:
        arguments = ["far", "--kubeconfig", str(member.kubeconfig), "--host-kubeconfig", str(config), "--take-over"]
        assert CliRunner().invoke(join, arguments).exit_code == 0
        kubeconfig = tmp_path / "far"
        found = json.loads(run_kubectl(member, config, "config", "view", "--raw", "-o", "json").stdout)
        for cluster in found["clusters"]:
            cluster["cluster"]["server"] += PROXY.format("far", "")
        kubeconfig.write_text(json.dumps(found))
        eventually(lambda: run_kubectl(member, kubeconfig, "get", "namespace", "default").returncode == 0)
        yield lambda *arguments: run_kubectl(member, kubeconfig, *arguments)


def run_kubectl(plane: RealControlPlane, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [str(plane.binaries / "kubectl"), "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)


def test_proxy_reads_and_writes_objects_of_the_member(member: RealControlPlane, member_kubectl: RunKubectl) -> None:
    made = member_kubectl("create", "configmap", "passed-on", "--from-literal=a=b")
    assert made.returncode == 0, made.stderr
    assert kubectl(member, "get", "configmap", "passed-on", "-o", "jsonpath={.data.a}") == "b"
    patched = member_kubectl("annotate", "configmap", "passed-on", "c=d")
    assert patched.returncode == 0, patched.stderr
    gone = member_kubectl("delete", "configmap", "passed-on", "--wait=true")  # it waits with a watch
    assert gone.returncode == 0, gone.stderr
    assert "NotFound" in member_kubectl("get", "configmap", "passed-on").stderr


def test_member_sees_the_identity_of_the_user(member_kubectl: RunKubectl) -> None:
    user = json.loads(member_kubectl("auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert "system:masters" in user["groups"]
    assert user["username"] != "admin", "the control plane's own identity"


def test_watch_through_the_proxy_continues(member: RealControlPlane, member_kubectl: RunKubectl) -> None:
    with watching(member, member_kubectl) as lines:
        kubectl(member, "create", "configmap", "seen-from-afar")
        assert any("seen-from-afar" in line for line in lines)
    kubectl(member, "delete", "configmap", "seen-from-afar")


@contextmanager
def watching(member: RealControlPlane, member_kubectl: RunKubectl) -> Iterator[Iterator[str]]:
    kubeconfig = member_kubectl("config", "view", "--raw", "-o", "json").stdout
    program = [
        str(member.binaries / "kubectl"),
        "--kubeconfig",
        "/dev/stdin",
        "get",
        "configmaps",
        "--watch",
        "-o",
        "name",
    ]
    process = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, process_group=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(kubeconfig)
    process.stdin.close()
    try:
        assert process.stdout.readline(), "existing objects come first"
        yield iter(process.stdout.readline, "")
    finally:
        process.terminate()
        process.wait(30)
