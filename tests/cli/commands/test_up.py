"""`trimtab up` as a user meets it: a process, a kubeconfig, and a fleet that is found again."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from trimtab.cli.commands.explain import command as explain_command
from trimtab.cli.commands.up import EXAMPLE, asked_for
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import NotFound

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
PODS = Resource("", "v1", "pods", "Pod")
PROXY = "/apis/cluster.karmada.io/v1alpha1/clusters/{}/proxy{}"


@contextmanager
def up(directory: Path, *options: str) -> Iterator[Path]:
    """A running `trimtab up`; its kubeconfig."""
    arguments = ["up", "--port", "0", "--data-dir", str(directory), *options]
    code = "from trimtab.cli.main import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "ready" in line:
                break
        assert process.poll() is None
        yield directory / "kubeconfig"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0


def talk(kubeconfig: Path, act: Callable[[KubeClient], Awaitable[Any]], context: str = "") -> Any:
    async def run() -> Any:
        client = KubeClient(load(str(kubeconfig), context))
        try:
            return await act(client)
        finally:
            await client.close()

    return asyncio.run(run())


def eventually(look: Callable[[], bool], patience: float = 30.0) -> None:
    end = time.monotonic() + patience
    while not look():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


async def apply_example(client: KubeClient) -> None:
    for obj in yaml.safe_load_all(EXAMPLE):
        await client.create(DEPLOYMENTS if obj["kind"] == "Deployment" else POLICIES, obj)


def ready(kubeconfig: Path) -> int:
    found = talk(kubeconfig, lambda client: client.get(DEPLOYMENTS, "default", "web"))
    return int((found.get("status") or {}).get("readyReplicas", 0))


def test_a_fleet_is_there_works_explains_itself_and_is_found_again(tmp_path: Path) -> None:
    with up(tmp_path) as config:
        talk(config, apply_example)
        eventually(lambda: ready(config) == 6)
        pods = talk(config, lambda client: client.list(PODS, "default"), "member1").items
        assert len(pods) == 2
        through = talk(config, lambda client: client.fetch(PROXY.format("member1", "/api/v1/namespaces/default/pods")))
        listed = orjson.loads(through.body)["items"]
        assert {pod["metadata"]["uid"] for pod in listed} == {pod["metadata"]["uid"] for pod in pods}
        assert talk(config, lambda client: client.fetch(PROXY.format("nobody", "/api"))).code == 404
        told = CliRunner().invoke(explain_command, ["deploy/web", "--kubeconfig", str(config)])
        assert "runs in member1 (2), member2 (2), member3 (2)" in told.output, told.output
        assert "remembered" not in told.output
        assert "chosen" in told.output
        anew = CliRunner().invoke(explain_command, ["rb/web-deployment", "--now", "--kubeconfig", str(config)])
        assert "runs in member1 (2)" in anew.output, anew.output
        talk(config, lambda client: client.delete(CLUSTERS, "", "member3"))
        eventually(lambda: not is_there(config, "member3"))
    with up(tmp_path) as config:
        eventually(lambda: ready(config) == 6)
        again = talk(config, lambda client: client.list(PODS, "default"), "member1").items
        assert {pod["metadata"]["uid"] for pod in pods} <= {pod["metadata"]["uid"] for pod in again}
        assert not is_there(config, "member3")
        told = CliRunner().invoke(explain_command, ["deploy/web", "--kubeconfig", str(config)])
        assert "could take it" in told.output, "who made the decision is gone; the binding tells of it"


def is_there(kubeconfig: Path, cluster: str) -> bool:
    try:
        talk(kubeconfig, lambda client: client.get(CLUSTERS, "", cluster))
    except NotFound:
        return False
    return True


def test_options_describe_the_fleet() -> None:
    counted = asked_for(None, 5, 2, no_fleet=False)
    assert counted is not None
    assert (len(counted.members), counted.size) == (5, 10)
    assert asked_for(None, None, None, no_fleet=True).members == ()  # type: ignore[union-attr]
    assert asked_for(None, None, None, no_fleet=False) is None
    with pytest.raises(Exception, match="give one of"):
        asked_for(Path("fleet.yaml"), 5, None, no_fleet=False)
