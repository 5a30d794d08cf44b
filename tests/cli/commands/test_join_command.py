"""`trimtab join-command`: an agent joins with a short-lived token, gets a certificate, and may do only what it needs."""

import asyncio
import base64
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from cli.commands.test_controllers import CONFIGS, config_map_data, propagate_config_map, wait_until_fully_applied
from cli.processes import LIMIT, api_server, run_command, running, until
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.errors import Forbidden

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


class AgentProcess:
    """The printed command in a process of its own."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trimtab", *arguments, "-v"], stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        assert self._process.wait(LIMIT) == 0, self.log.read_text()


def printed_command(kubeconfig: Path, *options: str) -> list[str]:
    done = run_command("join-command", "pulled", "--kubeconfig", str(kubeconfig), "--region", "eu", *options)
    assert done.code == 0, done.err
    program, *arguments = shlex.split(done.out)
    assert program == "trimtab"
    return arguments


def without_token(arguments: list[str]) -> list[str]:
    at = arguments.index("--bootstrap-token")
    return [*arguments[:at], *arguments[at + 2 :]]


@pytest.mark.parametrize(("options", "kept"), [((), {"tls.crt", "tls.key"}), (("--tokens",), {"token"})])
def test_agent_joins_with_the_printed_command_and_works_with_few_rights(
    tmp_path: Path, options: tuple[str, ...], kept: set[str]
) -> None:
    host_config, member_config = tmp_path / "host" / "kubeconfig", tmp_path / "member" / "kubeconfig"

    async def own_credentials(member: KubeClient) -> dict[str, bytes]:
        secret = await member.get(SECRETS, "trimtab-system", "trimtab-agent-token")
        return {name: base64.b64decode(value) for name, value in secret["data"].items()}

    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host, api_server(tmp_path / "member") as member:
            system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trimtab-system"}}
            await member.create(NAMESPACES, system)
            arguments = [*printed_command(host_config, *options), "--kubeconfig", str(member_config)]
            cluster = await host.get(CLUSTERS, "", "pulled")
            assert (cluster["spec"]["syncMode"], cluster["spec"]["region"]) == ("Pull", "eu")
            async with running("controllers", "--kubeconfig", str(host_config)):
                with AgentProcess(arguments, tmp_path / "agent.log") as agent:
                    await propagate_config_map(host)
                    assert await config_map_data(member) == {"k": "v"}
                    await wait_until_fully_applied(host)
                    assert "forbidden" not in agent.log.read_text().lower()
                own = await own_credentials(member)
                assert set(own) == kept
                with AgentProcess(without_token(arguments), tmp_path / "again.log"):  # its own credentials suffice
                    await host.patch(CONFIGS, "demo", "conf", {"data": {"k": "again"}})

                    async def has_changed() -> bool:
                        return (await config_map_data(member))["k"] == "again"

                    await until(has_changed)
            await check_rights(host_config, own)

    asyncio.run(scenario())


async def check_rights(host_config: Path, own: dict[str, bytes]) -> None:
    """The agent reads no Secrets and no Works of other clusters, and changes no other cluster."""
    admin = load(host_config)
    agent = KubeClient(
        Credentials(
            server=admin.server,
            ca=admin.ca,
            token=own.get("token", b"").decode(),
            cert=own.get("tls.crt", b""),
            key=own.get("tls.key", b""),
        )
    )
    try:
        assert (await agent.list(WORKS, "karmada-es-pulled")).items
        for request in (
            agent.list(SECRETS),
            agent.list(WORKS),
            agent.list(WORKS, "karmada-es-other"),
            agent.patch(CLUSTERS, "", "other", {"status": {}}, subresource="status"),
            agent.patch(CLUSTERS, "", "pulled", {"spec": {"region": "us"}}),
        ):
            with pytest.raises(Forbidden):
                await request
    finally:
        await agent.close()


def test_cluster_that_is_joined_in_push_mode_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host:
            body = {
                "apiVersion": CLUSTERS.api_version,
                "kind": "Cluster",
                "metadata": {"name": "pushed"},
                "spec": {"syncMode": "Push"},
            }
            await host.create(CLUSTERS, body)
            done = run_command("join-command", "pushed", "--kubeconfig", str(tmp_path / "host" / "kubeconfig"))
            assert done.code != 0
            assert "is joined in push mode" in done.err

    asyncio.run(scenario())


def test_agent_without_any_address_of_its_host_is_a_usage_error() -> None:
    done = run_command("agent", "m1")
    assert done.code == 2
    assert "--host-server" in done.err
