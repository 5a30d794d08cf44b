"""`trimtab doctor` reads a real API server over TLS and exits with 1 when something is wrong."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.processes import LIMIT
from trimtab.cli.main import trimtab
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.server.daemon import Daemon

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """An API server without controllers."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    daemon = Daemon(tmp_path, "127.0.0.1", 0)
    asyncio.run_coroutine_threadsafe(daemon.start(), loop).result(LIMIT)
    yield str(daemon.kubeconfig)
    asyncio.run_coroutine_threadsafe(daemon.stop(), loop).result(LIMIT)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    loop.close()


def create_cluster(kubeconfig: str) -> None:
    async def create() -> None:
        client = KubeClient(load(kubeconfig))
        spec = {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1"}
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "dark"}, "spec": spec}
        await client.create(CLUSTERS, body)
        await client.close()

    asyncio.run(create())


def test_findings_are_printed_with_remedies_and_the_exit_code_tells(kubeconfig: str) -> None:
    quiet = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig])
    assert quiet.exit_code == 0, quiet.output
    assert "the API server serves all kinds of Trimtab" in quiet.output
    assert "this user has all rights that the controllers need" in quiet.output
    assert "cluster: run `trimtab join NAME --kubeconfig FILE`" in quiet.output

    create_cluster(kubeconfig)
    result = CliRunner().invoke(trimtab, ["doctor", "--kubeconfig", kubeconfig, "-o", "json"])
    assert result.exit_code == 1
    problems = [finding for finding in json.loads(result.stdout) if finding["level"] == "problem"]
    assert [finding["message"] for finding in problems] == ["cluster dark is not ready (it was never probed)"]
    assert problems[0]["remedy"] == "check its API server https://127.0.0.1:1 and its credentials"
