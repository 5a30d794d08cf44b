"""Certificates are made once, renewed in time, and trusted before they are presented."""

import asyncio
import base64
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from builders import NOON

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.webhook.certificates import (
    AUTHORITY_VALIDITY,
    CONFIGURATIONS,
    SECRETS,
    SERVER_VALIDITY,
    CertificateFiles,
    CertificateRotation,
    KeyPair,
    WebhookCertificates,
    issued_by,
    names_of,
    needs_renewal,
    new_certificates,
    renew_expiring,
)
from webhook.webhook_helpers import Cluster, run_in_cluster

NAMES = ["trimtab-webhook.trimtab-system.svc", "127.0.0.1"]


def test_certificate_is_signed_for_its_names() -> None:
    made = new_certificates(NAMES, NOON)
    assert issued_by(made.server.certificate, made.authority.certificate)
    assert names_of(made.server.certificate) == set(NAMES)
    assert made.bundle == made.authority.certificate
    assert renew_expiring(made, NAMES, NOON, made.bundle) == made
    assert WebhookCertificates.from_data(made.to_data()) == made


def test_server_certificate_is_renewed_when_a_third_of_its_time_is_left() -> None:
    made = new_certificates(NAMES, NOON)
    assert not needs_renewal(made.server.certificate, NOON + SERVER_VALIDITY / 2)
    later = renew_expiring(made, NAMES, NOON + SERVER_VALIDITY * 3 / 4, made.bundle)
    assert later.server != made.server
    assert (later.authority, later.bundle) == (made.authority, made.bundle)


def test_certificate_is_renewed_for_other_names() -> None:
    made = new_certificates(NAMES, NOON)
    assert names_of(renew_expiring(made, [*NAMES, "other"], NOON, made.bundle).server.certificate) == {*NAMES, "other"}


def test_new_authority_is_trusted_before_it_signs() -> None:
    made = new_certificates(NAMES, NOON)
    end = NOON + AUTHORITY_VALIDITY * 3 / 4
    first = renew_expiring(made, NAMES, end, made.bundle)
    assert first.server == made.server
    assert made.authority.certificate in first.bundle
    assert first.authority.certificate in first.bundle
    assert renew_expiring(first, NAMES, end, made.bundle) == first  # no API server trusts it yet
    second = renew_expiring(first, NAMES, end, first.bundle)
    assert issued_by(second.server.certificate, first.authority.certificate)
    assert made.authority.certificate in second.bundle  # other replicas still present the old certificate
    assert renew_expiring(second, NAMES, end, second.bundle) == second


async def add_configurations(cluster: Cluster) -> None:
    hook = {
        "name": "checks.trimtab.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/checks"},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    for resource in CONFIGURATIONS:
        await cluster.add(
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": "trimtab-webhook"},
                "webhooks": [hook],
            }
        )


class SteppedClock:
    """A clock that is set, where to sleep for most of a year would run everything else that happens in that time."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time


def rotation(
    cluster: Cluster, loaded: list[KeyPair], clock: Clock | None = None, client: Client | None = None
) -> CertificateRotation:
    return CertificateRotation(
        client or cluster.client,
        clock or cluster.clock,
        namespace="default",
        secret="certificates",
        configuration="trimtab-webhook",
        names=NAMES,
        load=loaded.append,
    )


async def bundles(cluster: Cluster) -> list[bytes]:
    found = [await cluster.client.get(resource, "", "trimtab-webhook") for resource in CONFIGURATIONS]
    return [base64.b64decode(one["webhooks"][0]["clientConfig"]["caBundle"]) for one in found]


async def secret(cluster: Cluster) -> Raw:
    return await cluster.client.get(SECRETS, "default", "certificates")


def test_replicas_share_one_certificate_which_the_configurations_trust() -> None:
    async def scenario(cluster: Cluster) -> None:
        await add_configurations(cluster)
        one: list[KeyPair] = []
        other: list[KeyPair] = []
        await asyncio.gather(rotation(cluster, one).renew(), rotation(cluster, other).renew())
        assert one == other
        stored = WebhookCertificates.from_data((await secret(cluster))["data"])
        assert stored.server == one[0]
        assert await bundles(cluster) == [stored.bundle, stored.bundle]

    run_in_cluster(scenario)


def test_nothing_is_written_while_nothing_is_due() -> None:
    async def scenario(cluster: Cluster) -> None:
        await add_configurations(cluster)
        loaded: list[KeyPair] = []
        keeper = rotation(cluster, loaded)
        await keeper.renew()
        before = [
            await secret(cluster),
            *[await cluster.client.get(one, "", "trimtab-webhook") for one in CONFIGURATIONS],
        ]
        await keeper.renew()
        after = [
            await secret(cluster),
            *[await cluster.client.get(one, "", "trimtab-webhook") for one in CONFIGURATIONS],
        ]
        assert before == after
        assert len(loaded) == 1

    run_in_cluster(scenario)


def test_certificate_is_not_presented_before_the_configurations_trust_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        loaded: list[KeyPair] = []
        keeper = rotation(cluster, loaded)
        with pytest.raises(Exception, match="not found"):
            await keeper.renew()  # the configurations do not exist yet
        assert not keeper.is_loaded
        await add_configurations(cluster)
        await keeper.renew()
        assert keeper.is_loaded
        await asyncio.sleep((SERVER_VALIDITY * 3 / 4).total_seconds())
        await keeper.renew()
        assert len(loaded) == 2
        assert keeper.expires is not None
        assert keeper.expires > cluster.clock.now() + timedelta(days=20)

    run_in_cluster(scenario)


class PausedClient:
    """The client of a replica that is paused once, after it has read the Secret."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.has_read = asyncio.Event()
        self.may_continue = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        found = await self._client.get(resource, namespace, name)
        if resource == SECRETS:
            self.has_read.set()
            await self.may_continue.wait()
        return found


def test_replica_that_was_paused_does_not_take_back_the_trust_in_a_new_authority() -> None:
    async def scenario(cluster: Cluster) -> None:
        await add_configurations(cluster)
        loaded: list[KeyPair] = []
        clock = SteppedClock()
        keeper = rotation(cluster, loaded, clock)
        await keeper.renew()
        before = await bundles(cluster)
        client = PausedClient(cluster.client)
        paused = asyncio.ensure_future(rotation(cluster, [], clock, cast("Client", client)).renew())
        await client.has_read.wait()
        clock.time += AUTHORITY_VALIDITY * 3 / 4
        for _ in range(3):
            await keeper.renew()
        assert issued_by(loaded[-1].certificate, (await bundles(cluster))[0])
        after = await bundles(cluster)
        assert after != before
        client.may_continue.set()
        await asyncio.gather(paused, return_exceptions=True)
        assert await bundles(cluster) == after

    run_in_cluster(scenario)


def test_replicas_that_renew_the_authority_at_once_present_it_only_after_it_is_trusted() -> None:
    async def scenario(cluster: Cluster) -> None:
        await add_configurations(cluster)
        loads: tuple[list[KeyPair], list[KeyPair]] = ([], [])
        clock = SteppedClock()
        keepers = [rotation(cluster, loaded, clock) for loaded in loads]
        for keeper in keepers:
            await keeper.renew()
        first = WebhookCertificates.from_data((await secret(cluster))["data"])
        clock.time += AUTHORITY_VALIDITY * 3 / 4
        await asyncio.gather(*(keeper.renew() for keeper in keepers), return_exceptions=True)
        assert [loaded[-1] for loaded in loads] == [first.server, first.server], "the bundle was written a moment ago"
        stored = WebhookCertificates.from_data((await secret(cluster))["data"])
        assert await bundles(cluster) == [stored.bundle] * 2
        for _ in range(3):
            await asyncio.gather(*(keeper.renew() for keeper in keepers), return_exceptions=True)
        assert loads[0][-1] == loads[1][-1]
        assert issued_by(loads[0][-1].certificate, stored.authority.certificate)

    run_in_cluster(scenario)


@pytest.mark.parametrize("part", ["tls.crt", "ca.crt", "tls.key"])
def test_part_of_the_secret_that_is_no_certificate_is_replaced(part: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await add_configurations(cluster)
        loaded: list[KeyPair] = []
        keeper = rotation(cluster, loaded)
        await keeper.renew()
        await cluster.client.patch(SECRETS, "default", "certificates", {"data": {part: "bm90aGluZw=="}})
        await keeper.renew()
        stored = WebhookCertificates.from_data((await secret(cluster))["data"])
        assert issued_by(stored.server.certificate, stored.authority.certificate)
        assert loaded[-1] == stored.server

    run_in_cluster(scenario)


def test_damaged_secret_is_replaced() -> None:
    async def scenario(cluster: Cluster) -> None:
        await add_configurations(cluster)
        loaded: list[KeyPair] = []
        keeper = rotation(cluster, loaded)
        await keeper.renew()
        await cluster.client.patch(SECRETS, "default", "certificates", {"data": {"tls.key": None}})
        await keeper.renew()
        assert len(loaded) == 2

    run_in_cluster(scenario)


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    loaded: list[KeyPair] = []
    files = CertificateFiles(tmp_path, loaded.append)
    with pytest.raises(OSError):
        files.read()
    for hour in (0, 1):
        pair = new_certificates(NAMES, NOON + timedelta(hours=hour)).server
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)
        files.read()
        files.read()
        assert loaded[-1] == pair
    assert len(loaded) == 2
