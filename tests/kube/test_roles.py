"""Processes with separate roles on real API servers: members of a killed process get another owner."""

import asyncio
import signal
from pathlib import Path

from kube.fleet import CLUSTERS, ControllersProcess, RealFleet, all_ready, wait_until
from kube.test_controllers import has_converged, roll_out
from kube.workloads import delete_namespace

from trimtab.client.client import Resource

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACE = "kube-system"
FLAGS = ("--status-seconds=2", "--lease-seconds=6", "-v")
SPACE = "roles"
WORKLOADS = 3


async def holders(fleet: RealFleet) -> dict[str, str]:
    leases = (await fleet.client.list(LEASES, NAMESPACE, labels="trimtab.dev/lease=member")).items
    return {one["metadata"]["name"].removeprefix("trimtab-member-"): one["spec"]["holderIdentity"] for one in leases}


async def owned(fleet: RealFleet) -> dict[str, str]:
    found = {}
    for cluster in (await fleet.client.list(CLUSTERS)).items:
        conditions = (cluster.get("status") or {}).get("conditions") or []
        found[cluster["metadata"]["name"]] = next((c["status"] for c in conditions if c["type"] == "Owned"), "")
    return found


async def is_shared(fleet: RealFleet) -> bool:
    found = await holders(fleet)
    return len(found) == len(fleet.real_members) and all(found.values()) and len(set(found.values())) == 2


async def is_held_by_one(fleet: RealFleet) -> bool:
    found = await holders(fleet)
    return all(found.values()) and len(set(found.values())) == 1


async def all_owned(fleet: RealFleet, status: str = "True") -> bool:
    return set((await owned(fleet)).values()) == {status}


def test_members_of_a_killed_process_get_another_owner(fleet: RealFleet, tmp_path: Path) -> None:
    def process(name: str, role: str, *flags: str) -> ControllersProcess:
        return ControllersProcess(fleet.host.kubeconfig, tmp_path / f"{name}.log", "--roles", role, *FLAGS, *flags)

    decide = process("decide", "decide", "--leader-elect")
    first, second = process("first", "push"), process("second", "push")

    async def before() -> None:
        await wait_until(lambda: is_shared(fleet))
        await wait_until(lambda: all_owned(fleet))
        await wait_until(lambda: all_ready(fleet))
        await roll_out(fleet, SPACE, WORKLOADS)

    async def after() -> None:
        await wait_until(lambda: is_held_by_one(fleet))
        await wait_until(lambda: has_converged(fleet, SPACE, WORKLOADS))
        await wait_until(lambda: all_owned(fleet))
        await delete_namespace(fleet, SPACE)

    with decide, second:
        with first:
            fleet.loop.run(asyncio.wait_for(before(), 600))
            first.stop(signal.SIGKILL)
            fleet.loop.run(asyncio.wait_for(after(), 600))
        second.stop(signal.SIGKILL)
        fleet.loop.run(wait_until(lambda: all_owned(fleet, "False")))
