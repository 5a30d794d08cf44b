"""An agent gets a certificate with the printed token, keeps it, and renews it without interruption."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from members.test_registration import until
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, load
from trimtab.clock import WallClock
from trimtab.errors import Forbidden, InputError, NotFound, Unauthorized
from trimtab.members import agent_credentials
from trimtab.members.agent_access import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    delete_agent_access,
    prepare_agent,
)
from trimtab.members.agent_approval import AgentApproval
from trimtab.members.agent_credentials import AgentCredentials, HostAddress, issued_certificate
from trimtab.members.join import NAMESPACES, SECRETS, SERVICE_ACCOUNTS, ClusterFacts
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.request_signing import REQUESTS
from trimtab.server.background.certificate_signing import CertificateSigning
from trimtab.server.daemon import Daemon
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

load_declarations()
REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRET = ("trimtab-system", "trimtab-agent-token")


class LaterClock(WallClock):
    """The clock of the machine plus an offset."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


class Scene:
    """A host that approves and signs, and a member with the credentials of its agent."""

    def __init__(self, daemon: Daemon, host: LocalClient, member: LocalClient, folder: Path) -> None:
        self.daemon, self.host, self.member = daemon, host, member
        self.file = folder / "kubeconfig"
        self.clock = LaterClock()
        self.address = HostAddress(daemon.url, daemon.authority_certificate)

    def credentials(self) -> AgentCredentials:
        """Those of an agent that starts now."""
        return AgentCredentials(self.member, self.clock, "east", self.address, SECRET, self.file)

    def client(self) -> KubeClient:
        return KubeClient(load(self.file), self.clock)

    async def kept(self) -> dict[str, bytes]:
        secret = await self.member.get(SECRETS, *SECRET)
        return {name: base64.b64decode(value) for name, value in secret["data"].items()}

    async def serial(self) -> int:
        return x509.load_pem_x509_certificate((await self.kept())["tls.crt"]).serial_number


def run(folder: Path, scenario: Callable[[Scene], Awaitable[None]], *, approves: bool = True) -> None:
    async def run_it() -> None:
        daemon = Daemon(folder / "host", "127.0.0.1", 0)
        await daemon.start()
        host = LocalClient(daemon.api)
        server = ApiServer(Store(), ApiServerSettings(garbage_collection=False))
        await server.start()
        member = LocalClient(server)
        system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SECRET[0]}}
        await member.create(NAMESPACES, system)
        signing = CertificateSigning(host, daemon.authority, lambda: datetime.now(UTC))
        tasks = [asyncio.ensure_future(signing.run())]
        if approves:
            tasks.append(asyncio.ensure_future(AgentApproval(host, WallClock()).run()))
        try:
            await scenario(Scene(daemon, host, member, folder))
        finally:
            for task in tasks:
                task.cancel()
            await server.stop()
            await daemon.stop()

    asyncio.run(run_it())


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_credentials, "POLL_SECONDS", 0.05)


async def name_and_groups(client: KubeClient) -> tuple[str, list[str]]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    info = (await client.create(REVIEWS, review))["status"]["userInfo"]
    return info["username"], info["groups"]


def test_printed_token_only_requests_a_certificate_and_only_once(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        token = await prepare_agent(scene.host, "east", ClusterFacts())
        holder = KubeClient(Credentials(server=scene.address.server, ca=scene.address.ca, token=token))
        with pytest.raises(Forbidden):
            await holder.list(CLUSTERS)
        await scene.credentials().start(token)
        assert set(await scene.kept()) == {"tls.crt", "tls.key"}
        with pytest.raises(Unauthorized):
            await name_and_groups(holder)
        client = scene.client()
        name, groups = await name_and_groups(client)
        assert (name, groups) == ("trimtab:agent:east", ["trimtab:agents", "system:authenticated"])
        assert (await client.list(CLUSTERS)).items
        with pytest.raises(Forbidden):
            await client.list(SECRETS)
        await holder.close()
        await client.close()
        await scene.credentials().start("")  # its certificate suffices

    run(tmp_path, scenario)


def test_certificate_is_renewed_long_before_it_ends_while_a_watch_goes_on(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        held = scene.credentials()
        await held.start(await prepare_agent(scene.host, "east", ClusterFacts()))
        first = await scene.serial()
        (sample,) = held.samples()
        assert timedelta(days=29) < datetime.fromtimestamp(sample.value, UTC) - scene.clock.now() < timedelta(days=31)
        client = scene.client()
        listing = await client.list(CLUSTERS)
        watch = client.watch(CLUSTERS, revision=listing.revision)
        following = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.1)

        scene.clock.offset = timedelta(days=9)
        await held.renew_if_due()
        assert await scene.serial() == first
        scene.clock.offset = timedelta(days=11)
        before = list(client._transport._pool._idle)
        await held.renew_if_due()
        assert await scene.serial() != first
        assert (await client.list(CLUSTERS)).items
        # An API server refuses requests on an old connection when its certificate has expired.
        assert not set(before) & set(client._transport._pool._idle)

        await scene.host.patch(CLUSTERS, "", "east", {"spec": {"region": "eu"}})
        assert [event.type for event in await following] == ["MODIFIED"]
        await client.close()

    run(tmp_path, scenario)


def test_agent_with_a_token_goes_on_until_it_gets_a_certificate(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        token = await prepare_agent(scene.host, "east", ClusterFacts(), tokens=True)
        held = scene.credentials()
        await held.start(token)
        assert set(await scene.kept()) == {"token"}
        client = scene.client()
        assert (await name_and_groups(client))[0] == "system:serviceaccount:karmada-cluster:trimtab-agent-east"
        again = await prepare_agent(scene.host, "east", ClusterFacts())
        assert (await client.list(CLUSTERS)).items
        await held.renew()
        await scene.credentials().start(again)
        assert set(await scene.kept()) == {"tls.crt", "tls.key"}
        with pytest.raises(NotFound):
            await scene.host.get(SERVICE_ACCOUNTS, "karmada-cluster", "trimtab-agent-east")
        await client.close()

    run(tmp_path, scenario)


def test_expired_certificate_is_not_used(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.credentials().start(await prepare_agent(scene.host, "east", ClusterFacts()))
        scene.clock.offset = timedelta(days=31)
        with pytest.raises(InputError, match="run `trimtab join-command` again"):
            await scene.credentials().start("")

    run(tmp_path, scenario)


def test_agent_says_what_it_waits_for_and_starts_when_a_person_approves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agent_credentials, "HINT_SECONDS", 0.1)

    async def scenario(scene: Scene) -> None:
        token = await prepare_agent(scene.host, "east", ClusterFacts())
        starting = asyncio.ensure_future(scene.credentials().start(token))

        async def is_waiting() -> bool:
            return "has no answer yet" in caplog.text

        await until(is_waiting)
        (request,) = (await scene.host.list(REQUESTS)).items
        assert request["metadata"]["name"] in caplog.text
        approved = [{"type": "Approved", "status": "True", "reason": "Manual", "message": "yes"}]
        await scene.host.replace(REQUESTS, {**request, "status": {"conditions": approved}}, subresource="approval")
        await starting

    run(tmp_path, scenario, approves=False)


def request_with(condition: str) -> Raw:
    return {"metadata": {"name": "one"}, "status": {"conditions": [{"type": condition, "message": "no such cluster"}]}}


@pytest.mark.parametrize("condition", ["Denied", "Failed"])
def test_refused_request_is_an_error_that_says_why(condition: str) -> None:
    with pytest.raises(InputError, match=f"{condition.lower()}: no such cluster"):
        issued_certificate(request_with(condition))


def test_access_of_an_agent_ends_with_its_roles(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.credentials().start(await prepare_agent(scene.host, "east", ClusterFacts()))
        client = scene.client()
        assert (await client.list(CLUSTERS)).items
        for _ in range(2):  # a second time changes nothing
            await delete_agent_access(scene.host, "east")
        with pytest.raises(Forbidden):
            await client.list(CLUSTERS)
        for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS):
            names = [one["metadata"]["name"] for one in (await scene.host.list(kind)).items]
            assert not [name for name in names if name.endswith("-east")], kind
        await client.close()

    run(tmp_path, scenario)
