"""`trimtab join`, `fleet` and `unjoin` against two real API servers over TLS."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from cli.processes import LIMIT
from trimtab.cli.main import trimtab
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError, InputError
from trimtab.server.daemon import Daemon

SECRETS = Resource("", "v1", "secrets", "Secret")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Kubeconfigs(NamedTuple):
    """The kubeconfigs of a control plane and of a cluster that can join it."""

    host: str
    member: str


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubeconfigs]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(LIMIT)

    async def start(folder: Path) -> Daemon:
        daemon = Daemon(folder, "127.0.0.1", 0)
        await daemon.start()
        return daemon

    daemons = [wait(start(tmp_path_factory.mktemp(name))) for name in ("host", "member")]
    yield Kubeconfigs(*(str(daemon.kubeconfig) for daemon in daemons))
    for daemon in daemons:
        wait(daemon.stop())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    loop.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trimtab, arguments)


def error_of(*arguments: str) -> str:
    """The message of a command that fails."""
    result = run(*arguments)
    assert isinstance(result.exception, InputError | ApiError), result.exception
    return str(result.exception)


def fetch(kubeconfig: str, resource: Resource, namespace: str, name: str):
    async def work():
        client = KubeClient(load(kubeconfig))
        try:
            return await client.get(resource, namespace, name)
        finally:
            await client.close()

    return asyncio.run(work())


def remove(kubeconfig: str, resource: Resource, namespace: str, name: str) -> None:
    async def work() -> None:
        client = KubeClient(load(kubeconfig))
        try:
            await client.delete(resource, namespace, name)
        finally:
            await client.close()

    asyncio.run(work())


def join(servers: Kubeconfigs, name: str, *more: str) -> tuple[str, ...]:
    return ("join", name, "--kubeconfig", servers.member, "--host-kubeconfig", servers.host, *more)


def test_cluster_with_lost_credentials_gets_new_ones_and_keeps_its_rights(servers: Kubeconfigs) -> None:
    assert "not found" in error_of(*join(servers, "east", "--renew"))
    run(*join(servers, "east", "--kinds", "configmaps"))
    role = "karmada-controller-manager:karmada-east"
    before = fetch(servers.member, ROLES, "", role)
    cluster = fetch(servers.host, CLUSTERS, "", "east")
    token = fetch(servers.host, SECRETS, "karmada-cluster", "east")["data"]["token"]
    remove(servers.member, ACCOUNTS, "karmada-cluster", "karmada-east")
    remove(servers.host, SECRETS, "karmada-cluster", "east")

    assert run(*join(servers, "east", "--renew")).output == "cluster east has a new token\n"
    assert fetch(servers.host, SECRETS, "karmada-cluster", "east")["data"]["token"] != token
    assert fetch(servers.member, ACCOUNTS, "karmada-cluster", "karmada-east")
    assert fetch(servers.member, ROLES, "", role) == before
    assert fetch(servers.host, CLUSTERS, "", "east") == cluster
    other = ("join", "east", "--kubeconfig", servers.host, "--host-kubeconfig", servers.host, "--renew")
    assert "another cluster than the one that is joined as east" in error_of(*other)
    run("unjoin", "east", "--kubeconfig", servers.host, "--timeout", str(LIMIT))


def test_cluster_joins_is_listed_and_is_removed(servers: Kubeconfigs) -> None:
    assert run("fleet", "--kubeconfig", servers.host).output.startswith("There are no clusters.")

    joined = run(*join(servers, "east", "--region", "eu", "--label", "tier=gold"))
    assert joined.output == "cluster east joined in push mode\n"
    cluster = fetch(servers.host, CLUSTERS, "", "east")
    assert cluster["metadata"]["labels"] == {"tier": "gold"}
    assert cluster["spec"]["secretRef"] == {"namespace": "karmada-cluster", "name": "east"}
    assert set(fetch(servers.host, SECRETS, "karmada-cluster", "east")["data"]) == {"token", "caBundle"}
    assert fetch(servers.member, ACCOUNTS, "karmada-cluster", "karmada-east")
    heading, row = run("fleet", "--kubeconfig", servers.host).output.splitlines()
    assert heading.split()[:5] == ["NAME", "READY", "VERSION", "MODE", "REGION"]
    assert row.split()[:5] == ["east", "Unknown", "-", "Push", "eu"]

    assert "already joined as east" in error_of(*join(servers, "west"))
    assert "east is already joined" in error_of(*join(servers, "east"))
    assert "use --renew" in error_of(*join(servers, "east"))

    removed = run("unjoin", "east", "--kubeconfig", servers.host, "--timeout", str(LIMIT))
    assert removed.output == "cluster east removed\n"
    with pytest.raises(ApiError, match="not found"):
        fetch(servers.host, SECRETS, "karmada-cluster", "east")
    assert "there is no cluster east" in error_of("unjoin", "east", "--kubeconfig", servers.host)


def test_invalid_name_or_label_is_refused_before_anything_is_created(servers: Kubeconfigs) -> None:
    assert "cannot be the name of a cluster" in error_of(*join(servers, "No_Name"))
    assert "--label: expected KEY=VALUE, got 'gold'" in error_of(*join(servers, "east", "--label", "gold"))
    with pytest.raises(ApiError, match="not found"):
        fetch(servers.member, ACCOUNTS, "karmada-cluster", "karmada-No_Name")


def test_unreachable_api_server_is_named(servers: Kubeconfigs, tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.write_text(
        "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    assert "cannot reach the API server" in error_of("fleet", "--kubeconfig", str(dead))
    refused = error_of("join", "east", "--kubeconfig", str(dead), "--host-kubeconfig", servers.host)
    assert refused.startswith("cannot reach the cluster east: ")
    assert "has no context 'b' (it has: a)" in error_of("fleet", "--kubeconfig", str(dead), "--context", "b")
