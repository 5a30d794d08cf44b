"""Users of `trimtab up` reach a real member through the control plane, as themselves and with stock kubectl."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kube.rig import ControlPlane, kubectl

from cli.commands.test_up import PROXY, eventually, up
from trimtab.cli.commands.join import command as join

Say = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def through(member: ControlPlane, tmp_path: Path) -> Iterator[Say]:
    """kubectl, on its way through the control plane to a member that has joined it."""
    with up(tmp_path / "up", "--no-fleet") as config:
        words = ["far", "--kubeconfig", str(member.kubeconfig), "--host-kubeconfig", str(config)]
        assert CliRunner().invoke(join, words).exit_code == 0
        far = tmp_path / "far"
        found = json.loads(run(member, config, "config", "view", "--raw", "-o", "json").stdout)
        for cluster in found["clusters"]:
            cluster["cluster"]["server"] += PROXY.format("far", "")
        far.write_text(json.dumps(found))
        eventually(lambda: run(member, far, "get", "namespace", "default").returncode == 0)
        yield lambda *words: run(member, far, *words)


def run(plane: ControlPlane, kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [str(plane.binaries / "kubectl"), "--kubeconfig", str(kubeconfig), *words]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)


def test_what_is_read_and_written_through_the_proxy_is_that_of_the_member(member: ControlPlane, through: Say) -> None:
    made = through("create", "configmap", "passed-on", "--from-literal=a=b")
    assert made.returncode == 0, made.stderr
    assert kubectl(member, "get", "configmap", "passed-on", "-o", "jsonpath={.data.a}") == "b"
    patched = through("annotate", "configmap", "passed-on", "c=d")
    assert patched.returncode == 0, patched.stderr
    gone = through("delete", "configmap", "passed-on", "--wait=true")  # it waits by watching
    assert gone.returncode == 0, gone.stderr
    assert "NotFound" in through("get", "configmap", "passed-on").stderr


def test_the_member_sees_who_calls_and_not_the_control_plane(through: Say) -> None:
    told = json.loads(through("auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert "system:masters" in told["groups"]
    assert told["username"] != "admin", "that is who we are there ourselves"


def test_a_watch_through_the_proxy_goes_on(member: ControlPlane, through: Say) -> None:
    with watching(member, through) as lines:
        kubectl(member, "create", "configmap", "seen-from-afar")
        assert any("seen-from-afar" in line for line in lines)
    kubectl(member, "delete", "configmap", "seen-from-afar")


@contextmanager
def watching(member: ControlPlane, through: Say) -> Iterator[Iterator[str]]:
    kubeconfig = through("config", "view", "--raw", "-o", "json").stdout
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
        assert process.stdout.readline(), "what is there already comes first"
        yield iter(process.stdout.readline, "")
    finally:
        process.terminate()
        process.wait(30)
