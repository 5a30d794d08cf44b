"""The Leases of Karmada's controllers: who holds them, and that a write needs all of them while Karmada is replaced."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from trimtab.cli.support.karmada_leases import (
    KARMADA_LEASES,
    KARMADA_NAMESPACE,
    LeaseHolder,
    check_all_held,
    current_holders,
    is_expired,
    karmada_elections,
)
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.runtime.leader_election import LeaderElector, LeaseLost, micro_time
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def lease(name: str, holder: str, age_seconds: float) -> dict[str, object]:
    renewed = micro_time(NOON - timedelta(seconds=age_seconds))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": KARMADA_NAMESPACE, "name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }


async def new_client() -> LocalClient:
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await server.start()
    client = LocalClient(server)
    await client.create(NAMESPACES, {"metadata": {"name": KARMADA_NAMESPACE}})
    return client


def test_holders_are_those_whose_lease_has_not_expired() -> None:
    async def scenario() -> list[LeaseHolder]:
        client = await new_client()
        await client.create(LEASES, lease("alive", "karmada-1", 3))
        await client.create(LEASES, lease("expired", "karmada-2", 16))
        await client.create(LEASES, lease("released", "", 3))
        return await current_holders(client, KARMADA_NAMESPACE, ["alive", "expired", "released", "absent"], NOON)

    assert run_virtually(scenario()) == [LeaseHolder(f"{KARMADA_NAMESPACE}/alive", "karmada-1")]


def test_lease_that_was_never_renewed_has_expired() -> None:
    assert is_expired({"spec": {"holderIdentity": "karmada-1"}}, NOON)
    assert not is_expired(lease("alive", "karmada-1", 15), NOON)


def test_write_needs_every_lease() -> None:
    async def scenario() -> None:
        client = await new_client()
        elections = [
            LeaderElector(client, LoopClock(), "us", namespace=KARMADA_NAMESPACE, name=name)
            for name in KARMADA_LEASES[:2]
        ]

        async def work() -> None:
            await asyncio.sleep(5)

        first = asyncio.ensure_future(elections[0].run_as_leader(work))
        await asyncio.sleep(1)
        elections[0].check_held()
        with pytest.raises(LeaseLost):
            check_all_held(elections)
        second = asyncio.ensure_future(elections[1].run_as_leader(work))
        await asyncio.sleep(1)
        check_all_held(elections)
        await asyncio.gather(first, second)
        with pytest.raises(LeaseLost):
            check_all_held(elections)

    run_virtually(scenario())


def test_every_lease_of_karmada_is_held_as_karmada_names_it() -> None:
    async def scenario() -> list[tuple[str, str]]:
        return [(one._namespace, one._name) for one in karmada_elections(await new_client(), 15)]

    assert run_virtually(scenario()) == [(KARMADA_NAMESPACE, name) for name in KARMADA_LEASES]
