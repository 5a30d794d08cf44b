"""A pull agent on real API servers: it gets its certificate from kube-controller-manager and renews it."""

import asyncio
import base64
import shlex
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from kube.fleet import ControllersProcess, wait_until
from kube.rig import RealControlPlane, kubectl
from kube.test_credentials import REVIEWS
from kube.test_deploy import MANIFESTS, kubeconfig_of_manifests

from cli.commands.test_controllers import CONFIGS, config_map_data, propagate_config_map, wait_until_fully_applied
from cli.commands.test_join_command import CLUSTERS, AgentProcess, check_rights
from trimtab.cli.commands.join_command import command as join_command
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.clock import WallClock
from trimtab.errors import Unauthorized
from trimtab.members.agent_credentials import AgentCredentials, HostAddress, certificate_request
from trimtab.members.join import SECRETS
from trimtab.server.auth.request_signing import REQUESTS

SECRET = ("trimtab-system", "trimtab-agent-token")


class LaterClock(WallClock):
    """The clock of the machine plus an offset."""

    offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


@pytest.fixture
def controllers(host_with_crds: RealControlPlane, tmp_path: Path) -> Iterator[ControllersProcess]:
    """Controllers with exactly the rights of the manifests."""
    account = kubeconfig_of_manifests(host_with_crds, tmp_path)
    with ControllersProcess(account, tmp_path / "controllers.log", "-v") as process:
        yield process
    kubectl(host_with_crds, "delete", "-f", str(MANIFESTS / "controllers.yaml"))


def printed_command(host: RealControlPlane, name: str) -> list[str]:
    done = CliRunner().invoke(join_command, [name, "--kubeconfig", str(host.kubeconfig)], catch_exceptions=False)
    return shlex.split(done.stdout)[1:]


async def credential_id(client: KubeClient) -> Any:
    """What the API server knows about the credentials of the caller."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    user = (await client.create(REVIEWS, review))["status"]["userInfo"]
    assert user["username"] == "trimtab:agent:pulled"
    return (user.get("extra") or {}).get("authentication.kubernetes.io/credential-id")


async def is_refused(client: KubeClient) -> bool:
    try:
        await client.resources()
    except Unauthorized:
        return True
    return False


def test_agent_gets_and_renews_its_certificate_and_nobody_elses(
    host_with_crds: RealControlPlane, member: RealControlPlane, controllers: ControllersProcess, tmp_path: Path
) -> None:
    kubectl(member, "create", "namespace", SECRET[0])
    arguments = printed_command(host_with_crds, "pulled")
    token = arguments[arguments.index("--bootstrap-token") + 1]

    async def kept(client: KubeClient) -> dict[str, bytes]:
        found = await client.get(SECRETS, *SECRET)
        return {name: base64.b64decode(value) for name, value in found["data"].items()}

    async def story() -> None:
        host, here = KubeClient(load(host_with_crds.kubeconfig)), KubeClient(load(member.kubeconfig))
        address = HostAddress(host_with_crds.server, load(host_with_crds.kubeconfig).ca)
        holder = KubeClient(Credentials(server=address.server, ca=address.ca, token=token))
        foreign = await holder.create(REQUESTS, certificate_request("other", ec.generate_private_key(ec.SECP256R1())))
        with AgentProcess([*arguments, "--kubeconfig", str(member.kubeconfig)], tmp_path / "agent.log") as agent:
            await propagate_config_map(host)
            assert await config_map_data(here) == {"k": "v"}
            await wait_until_fully_applied(host)
            await check_renewal(host, here, address, tmp_path)
            await host.patch(CONFIGS, "demo", "conf", {"data": {"k": "again"}})

            async def has_changed() -> bool:
                return (await config_map_data(here))["k"] == "again"

            await wait_until(has_changed)
            assert "forbidden" not in agent.log.read_text().lower()
        await wait_until(lambda: is_refused(holder))  # the printed token was good for one agent; an answer is cached
        assert not (await host.get(REQUESTS, "", foreign["metadata"]["name"])).get("status")
        await check_rights(host_with_crds.kubeconfig, await kept(here))
        for client in (host, here, holder):
            await client.close()

    async def check_renewal(host: KubeClient, here: KubeClient, address: HostAddress, folder: Path) -> None:
        """Renew the certificate of the running agent while a client watches with the old one."""
        clock = LaterClock()
        held = AgentCredentials(here, clock, "pulled", address, SECRET, folder / "agent.kubeconfig")
        await held.start("")
        client = KubeClient(load(folder / "agent.kubeconfig"), clock)
        before, first = await credential_id(client), await kept(here)
        revision = (await client.list(CLUSTERS)).revision
        following = asyncio.ensure_future(anext(client.watch(CLUSTERS, revision=revision)))
        clock.offset = timedelta(days=11)
        await held.renew_if_due()
        assert await kept(here) != first
        clock.offset += timedelta(minutes=2)  # clients look at their kubeconfig once a minute
        after = await credential_id(client)
        assert after != before or before is None  # known since 1.32
        await host.patch(CLUSTERS, "", "pulled", {"metadata": {"labels": {"renewed": "true"}}})
        assert await asyncio.wait_for(following, 300)
        await client.close()

    asyncio.run(asyncio.wait_for(story(), 900))
    log = controllers.log.read_text()
    assert "trimtab-bootstrap-pulled is not the agent of the cluster" in log  # why the foreign request was left alone
    assert "forbidden" not in log.lower()
