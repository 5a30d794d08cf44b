"""`trimtab join`, `fleet` and `unjoin` against two real API servers over TLS."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from trimtab.cli.main import trimtab
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiFault, InputFault
from trimtab.server.daemon import Daemon

SECRETS = Resource("", "v1", "secrets", "Secret")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Pair(NamedTuple):
    """The kubeconfigs of a control plane and of a cluster that may join it."""

    host: str
    member: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    async def start(folder: Path) -> Daemon:
        daemon = Daemon(folder, "127.0.0.1", 0)
        await daemon.start()
        return daemon

    daemons = [wait(start(tmp_path_factory.mktemp(name))) for name in ("host", "member")]
    yield Pair(*(str(daemon.kubeconfig) for daemon in daemons))
    for daemon in daemons:
        wait(daemon.stop())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trimtab, arguments)


def complaint(*arguments: str) -> str:
    """What a command refuses with."""
    result = run(*arguments)
    assert isinstance(result.exception, InputFault | ApiFault), result.exception
    return str(result.exception)


def fetch(kubeconfig: str, resource: Resource, namespace: str, name: str):
    async def work():
        client = KubeClient(load(kubeconfig))
        try:
            return await client.get(resource, namespace, name)
        finally:
            await client.close()

    return asyncio.run(work())


def join(pair: Pair, name: str, *more: str) -> tuple[str, ...]:
    return ("join", name, "--kubeconfig", pair.member, "--host-kubeconfig", pair.host, *more)


def test_a_cluster_joins_is_seen_and_leaves(pair: Pair) -> None:
    assert run("fleet", "--kubeconfig", pair.host).output.startswith("No clusters yet.")

    joined = run(*join(pair, "east", "--region", "eu", "--label", "tier=gold"))
    assert joined.output == "cluster east joined in push mode\n"
    cluster = fetch(pair.host, CLUSTERS, "", "east")
    assert cluster["metadata"]["labels"] == {"tier": "gold"}
    assert cluster["spec"]["secretRef"] == {"namespace": "karmada-cluster", "name": "east"}
    assert set(fetch(pair.host, SECRETS, "karmada-cluster", "east")["data"]) == {"token", "caBundle"}
    assert fetch(pair.member, ACCOUNTS, "karmada-cluster", "karmada-east")
    heading, row = run("fleet", "--kubeconfig", pair.host).output.splitlines()
    assert heading.split()[:5] == ["NAME", "READY", "VERSION", "MODE", "REGION"]
    assert row.split()[:5] == ["east", "Unknown", "-", "Push", "eu"]

    assert "already joined as east" in complaint(*join(pair, "west"))
    assert "east is already joined" in complaint(*join(pair, "east"))

    left = run("unjoin", "east", "--kubeconfig", pair.host, "--timeout", "20")
    assert left.output == "cluster east has left\n"
    with pytest.raises(ApiFault, match="not found"):
        fetch(pair.host, SECRETS, "karmada-cluster", "east")
    assert "no cluster is called east" in complaint("unjoin", "east", "--kubeconfig", pair.host)


def test_a_name_or_label_that_no_cluster_can_have_is_refused_before_anything_is_made(pair: Pair) -> None:
    assert "cannot be the name of a cluster" in complaint(*join(pair, "No_Name"))
    assert "--label takes KEY=VALUE, not 'gold'" in complaint(*join(pair, "east", "--label", "gold"))
    with pytest.raises(ApiFault, match="not found"):
        fetch(pair.member, ACCOUNTS, "karmada-cluster", "karmada-No_Name")


def test_who_does_not_answer_is_named(pair: Pair, tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.write_text(
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    assert "cannot reach the API server" in complaint("fleet", "--kubeconfig", str(dead))
    refused = complaint("join", "east", "--kubeconfig", str(dead), "--host-kubeconfig", pair.host)
    assert refused.startswith("cannot reach the cluster east: ")
    assert "has no context 'b' (it has: a)" in complaint("fleet", "--kubeconfig", str(dead), "--context", "b")
