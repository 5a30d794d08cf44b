"""Clients of members are built from the Secret that `trimtab join` stored."""

import asyncio
import base64

import pytest

from trimtab.api.kinds.cluster import Cluster, ClusterSpec, LocalSecretReference
from trimtab.api.value import Meta, Raw
from trimtab.client.kube import KubeClient
from trimtab.members.member_client import client_from_secret


def new_cluster(endpoint: str = "https://east:6443/", secret: str = "east") -> Cluster:
    ref = LocalSecretReference(namespace="karmada-cluster", name=secret) if secret else None
    return Cluster(metadata=Meta(name="east"), spec=ClusterSpec(api_endpoint=endpoint, secret_ref=ref))


def find_secret(namespace: str, name: str) -> Raw | None:
    encoded = base64.b64encode(b"secret-token").decode()
    return {"data": {"token": encoded}} if (namespace, name) == ("karmada-cluster", "east") else None


def test_client_is_created_from_the_token_secret() -> None:
    async def run() -> None:
        client = client_from_secret(new_cluster(), find_secret)
        assert isinstance(client, KubeClient)
        await client.close()

    asyncio.run(run())


def test_client_uses_a_renewed_token() -> None:
    tokens = ["first"]

    def secret(namespace: str, name: str) -> Raw:
        return {"data": {"token": base64.b64encode(tokens[-1].encode()).decode()}}

    async def run() -> None:
        client = client_from_secret(new_cluster(), secret)
        assert client is not None
        assert (await client._transport.headers())["Authorization"] == "Bearer first"
        tokens.append("second")
        assert (await client._transport.headers())["Authorization"] == "Bearer second"
        await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("cluster", [new_cluster(secret=""), new_cluster(secret="other"), new_cluster(endpoint="")])
def test_cluster_without_secret_or_endpoint_has_no_client(cluster: Cluster) -> None:
    assert client_from_secret(cluster, find_secret) is None
