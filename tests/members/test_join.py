"""Joining creates an account in the member, and a Cluster and a token Secret on the host."""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trimtab.api.value import Raw
from trimtab.client.client import PlainResponse, Resource
from trimtab.client.kubeconfig import Credentials
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import Conflict, InputError, NotFound
from trimtab.members.join import (
    CLUSTER_NAMESPACE,
    CONTROL_PLANE,
    NAMESPACED_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    ClusterFacts,
    claim_member,
    delete_credentials,
    join,
    release_member,
    unjoin,
)
from trimtab.members.member_rights import ALL_RIGHTS, DEFAULT_RIGHTS
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
CREDENTIALS = Credentials(server="https://east:6443", ca=b"certificate")
FACTS = ClusterFacts(provider="aws", region="eu", labels={"env": "prod"})


class MemberClient(LocalClient):
    """The embedded server issues no tokens, so the client does."""

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        assert (resource, namespace, name, subresource) == (
            SERVICE_ACCOUNTS,
            CLUSTER_NAMESPACE,
            "karmada-east",
            "token",
        )
        return {"status": {"token": "secret-token"}}


def run_scenario(scenario: Callable[[LocalClient, MemberClient], Awaitable[None]]) -> None:
    async def run() -> None:
        servers = [ApiServer(Store(), ApiServerSettings(clock=LoopClock())) for _ in range(2)]
        for server in servers:
            await server.start()
        try:
            await scenario(LocalClient(servers[0]), MemberClient(servers[1]))
        finally:
            for server in servers:
                await server.stop()

    run_virtually(run())


def test_push_cluster_gets_an_account_and_a_token_secret() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        cluster = await join(host, member, "east", CREDENTIALS, FACTS)
        assert cluster["spec"]["secretRef"] == {"namespace": CLUSTER_NAMESPACE, "name": "east"}
        assert (cluster["spec"]["apiEndpoint"], cluster["spec"]["region"]) == ("https://east:6443", "eu")
        assert cluster["metadata"]["labels"] == {"env": "prod"}
        secret = await host.get(SECRETS, CLUSTER_NAMESPACE, "east")
        assert base64.b64decode(secret["data"]["token"]) == b"secret-token"
        assert base64.b64decode(secret["data"]["caBundle"]) == b"certificate"
        (subject,) = (await member.get(ROLE_BINDINGS, "", "karmada-controller-manager:karmada-east"))["subjects"]
        assert (subject["namespace"], subject["name"]) == (CLUSTER_NAMESPACE, "karmada-east")
        own = await member.get(NAMESPACED_ROLES, CLUSTER_NAMESPACE, "karmada-east")
        assert all(rule["resourceNames"] == ["karmada-east"] for rule in own["rules"]), "its own token, and no other"

    run_scenario(scenario)


class KubernetesHost(LocalClient):
    """An API server that has clusters as a CRD: they have a status, and no proxy."""

    async def fetch(self, path: str) -> PlainResponse:
        found = await super().fetch(path)
        listed = json.loads(found.body)
        listed["resources"] = [entry for entry in listed["resources"] if not entry["name"].endswith("/proxy")]
        return found._replace(body=json.dumps(listed).encode())


@pytest.mark.parametrize(
    ("host_type", "allowed", "impersonates"),
    [(LocalClient, True, True), (LocalClient, False, False), (KubernetesHost, True, False)],
)
def test_control_plane_acts_as_other_users_only_where_it_serves_the_proxy_and_may(
    host_type: type[LocalClient], allowed: bool, impersonates: bool
) -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await join(host_type(host._server), member, "east", CREDENTIALS, FACTS, allow_proxy=allowed)
        roles = [role for role in (await member.list(ROLES)).items if "karmada-east" in role["metadata"]["name"]]
        verbs = {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]}
        assert ("impersonate" in verbs) == impersonates
        bound = {one["metadata"]["name"] for one in (await member.list(ROLE_BINDINGS)).items}
        assert {role["metadata"]["name"] for role in roles} <= bound

    run_scenario(scenario)


def test_pull_cluster_gets_no_credentials_on_the_host() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        cluster = await join(host, member, "east", CREDENTIALS, FACTS, mode="Pull")
        assert "secretRef" not in cluster["spec"]
        with pytest.raises(NotFound):
            await host.get(SECRETS, CLUSTER_NAMESPACE, "east")

    run_scenario(scenario)


def test_same_name_and_same_cluster_are_rejected() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await join(host, member, "east", CREDENTIALS, FACTS)
        with pytest.raises(InputError, match="a cluster called east is already joined"):
            await join(host, member, "east", CREDENTIALS, FACTS)
        with pytest.raises(InputError, match="this cluster is already joined as east"):
            await join(host, member, "west", CREDENTIALS, FACTS)
        with pytest.raises(InputError, match="cannot be the name of a cluster"):
            await join(host, member, "Not A Name", CREDENTIALS, FACTS)

    run_scenario(scenario)


def test_of_two_control_planes_that_claim_a_member_at_once_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        patch = member.patch

        async def patch_after_another(*arguments: Any, **options: Any) -> Raw:
            monkeypatch.undo()
            await claim_member(member, "east", "another", take_over=False)
            return await patch(*arguments, **options)

        monkeypatch.setattr(member, "patch", patch_after_another)
        with pytest.raises(Conflict):
            await claim_member(member, "east", "ours", take_over=False)
        metadata = (await member.get(NAMESPACES, "", CLUSTER_NAMESPACE))["metadata"]
        assert metadata["annotations"][CONTROL_PLANE] == "another"

    run_scenario(scenario)


def test_member_of_another_control_plane_is_joined_only_with_take_over() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await join(host, member, "east", CREDENTIALS, FACTS)
        other = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await other.start()
        second = LocalClient(other)
        with pytest.raises(InputError, match=r"held by another control plane .*--take-over"):
            await join(second, member, "east", CREDENTIALS, FACTS)
        assert (await second.list(CLUSTERS)).items == []
        with pytest.raises(NotFound):
            await second.get(SECRETS, CLUSTER_NAMESPACE, "east")
        await join(second, member, "east", CREDENTIALS, FACTS, take_over=True)
        await release_member(host, member, "east")  # the first no longer holds it, so it releases nothing
        await unjoin(host, "east")
        with pytest.raises(InputError, match="held by another control plane"):
            await join(host, member, "east", CREDENTIALS, FACTS)
        await release_member(second, member, "east")
        await join(host, member, "east", CREDENTIALS, FACTS)
        await other.stop()

    run_scenario(scenario)


def test_account_is_deleted_with_the_record_that_the_member_is_held() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await join(host, member, "east", CREDENTIALS, FACTS)
        await member.get(SERVICE_ACCOUNTS, CLUSTER_NAMESPACE, "karmada-east")
        await release_member(host, member, "east")
        with pytest.raises(NotFound):
            await member.get(SERVICE_ACCOUNTS, CLUSTER_NAMESPACE, "karmada-east")
        await release_member(host, member, "east")

    run_scenario(scenario)


def test_roles_of_an_earlier_join_are_replaced() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await join(host, member, "east", CREDENTIALS, FACTS, rights=ALL_RIGHTS)
        await unjoin(host, "east")
        await join(host, member, "east", CREDENTIALS, FACTS)
        role = await member.get(ROLES, "", "karmada-controller-manager:karmada-east")
        assert role["rules"] == DEFAULT_RIGHTS.rules()

    run_scenario(scenario)


def test_unjoin_deletes_the_cluster_and_credentials_can_be_deleted_twice() -> None:
    async def scenario(host: LocalClient, member: MemberClient) -> None:
        await join(host, member, "east", CREDENTIALS, FACTS)
        await unjoin(host, "east")
        assert (await host.list(CLUSTERS)).items == []
        await delete_credentials(host, "east")
        await delete_credentials(host, "east")
        with pytest.raises(NotFound):
            await host.get(SECRETS, CLUSTER_NAMESPACE, "east")

    run_scenario(scenario)
