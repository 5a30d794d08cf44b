"""The Leases with which Karmada's components elect their leaders, on the API server of a Karmada control plane."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.cli.support.processes import new_election
from trimtab.client.client import Client
from trimtab.errors import NotFound
from trimtab.runtime.leader_election import LEASES, LeaderElector

KARMADA_NAMESPACE = "karmada-system"
KARMADA_LEASES = ("karmada-controller-manager", "karmada-scheduler", "karmada-descheduler")
"""Components that decide or write; the webhook and the API servers may go on."""


class LeaseHolder(NamedTuple):
    """Who holds a Lease now."""

    lease: str
    holder: str


def karmada_elections(client: Client, lease_seconds: float) -> list[LeaderElector]:
    """Elections for Karmada's Leases: while this process holds them, a Karmada that is started again waits."""
    return [
        new_election(client, name=name, namespace=KARMADA_NAMESPACE, lease_seconds=lease_seconds)
        for name in KARMADA_LEASES
    ]


def check_all_held(elections: Sequence[LeaderElector]) -> None:
    for election in elections:
        election.check_held()


async def current_holders(client: Client, namespace: str, names: Sequence[str], now: datetime) -> list[LeaseHolder]:
    """The holders of those Leases that have not expired."""
    found = []
    for name in names:
        try:
            lease = await client.get(LEASES, namespace, name)
        except NotFound:
            continue
        if holder := holder_of(lease, now):
            found.append(holder)
    return found


def holder_of(lease: Raw, now: datetime) -> LeaseHolder | None:
    """Who holds this Lease; None if nobody does, or if it has expired."""
    holder, place = (lease.get("spec") or {}).get("holderIdentity") or "", lease["metadata"]
    if not holder or is_expired(lease, now):
        return None
    return LeaseHolder(f"{place['namespace']}/{place['name']}", holder)


def is_expired(lease: Raw, now: datetime) -> bool:
    spec = lease.get("spec") or {}
    renewed = datetime.fromisoformat(spec["renewTime"]) if spec.get("renewTime") else None
    return renewed is None or now - renewed > timedelta(seconds=float(spec.get("leaseDurationSeconds") or 15))
