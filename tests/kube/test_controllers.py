"""The controllers survive failures of real control planes: a killed leader, stopped etcd, a restarted API server."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from kube.fleet import NAMESPACES, WORKS, Controllers, RealFleet, all_ready, until
from kube.workloads import BINDINGS, DEPLOYMENTS, POLICIES, deployment, policy, swept

from trimtab.client.client import Client, Resource
from trimtab.errors import ApiError, NotFound

OUTAGE_SECONDS = 30.0
LEASE_SECONDS = 5.0
SLACK_SECONDS = 25.0
"""Extra time on a busy machine; exact times are tested on virtual time (test_election)."""
WORKLOADS = 50
FEWER = 20
"""For tests where the number does not matter: the smallest member has capacity for 110 pods."""
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


async def roll_out(fleet: RealFleet, namespace: str, count: int = WORKLOADS) -> None:
    await until(lambda: all_ready(fleet))
    client = fleet.client
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await client.create(POLICIES, policy(namespace))
    for number in range(count):
        await client.create(DEPLOYMENTS, deployment(namespace, number))


async def applied(fleet: RealFleet, namespace: str) -> int:
    """The number of copies of workloads in all members."""
    return sum([len((await member.list(DEPLOYMENTS, namespace)).items) for member in fleet.members.values()])


async def converged(fleet: RealFleet, namespace: str, count: int = WORKLOADS) -> bool:
    """Every workload is ready in every member, and the status of its template on the host reports it."""
    try:
        templates = (await fleet.client.list(DEPLOYMENTS, namespace)).items
    except (ApiError, OSError):
        return False
    ready = [(template.get("status") or {}).get("readyReplicas") for template in templates]
    return ready == [len(fleet.real)] * count


async def nothing_is_duplicated(fleet: RealFleet, namespace: str, count: int = WORKLOADS) -> None:
    bindings = (await fleet.client.list(BINDINGS, namespace)).items
    assert Counter(b["spec"]["resource"]["name"] for b in bindings) == {f"web-{n}": 1 for n in range(count)}
    copies: Counter[tuple[str, str]] = Counter()
    for work in (await fleet.client.list(WORKS)).items:
        (manifest,) = work["spec"]["workload"]["manifests"]
        if manifest["metadata"].get("namespace") == namespace:
            copies[work["metadata"]["namespace"], manifest["metadata"]["name"]] += 1
    wanted = {(f"karmada-es-{member}", f"web-{n}"): 1 for member in fleet.members for n in range(count)}
    assert copies == wanted
    for member in fleet.members.values():
        sets = (await member.list(REPLICA_SETS, namespace)).items
        owners = Counter(item["metadata"]["ownerReferences"][0]["name"] for item in sets)
        assert owners == {f"web-{n}": 1 for n in range(count)}  # a template written twice would have caused a rollout


async def holder(client: Client) -> str:
    try:
        lease = await client.get(LEASES, "kube-system", "trimtab-controllers")
    except NotFound:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


def test_standby_takes_over_when_the_leader_is_killed_during_a_rollout(
    fleet: RealFleet, record_property: Callable[[str, object], None]
) -> None:
    flags = ("--leader-elect", f"--lease-seconds={LEASE_SECONDS}", "--status-seconds=2")
    pair = [fleet.controllers(f"controllers-{number}", *flags) for number in (1, 2)]
    for process in pair:
        process.start()
    try:
        seconds = fleet.loop.do(killed_leader(fleet, pair))
        record_property("lease changed hands after seconds", round(seconds, 1))
        assert seconds <= LEASE_SECONDS + SLACK_SECONDS
        fleet.loop.do(until(lambda: converged(fleet, "killed")))
        fleet.loop.do(nothing_is_duplicated(fleet, "killed"))
        fleet.loop.do(swept(fleet, "killed"))
    finally:
        for process in pair:
            process.stop()


async def killed_leader(fleet: RealFleet, pair: list[Controllers]) -> float:
    """Kill the leader during a rollout; returns the seconds without a leader."""
    await until(lambda: is_held(fleet.client))
    first = await holder(fleet.client)
    rolling = asyncio.create_task(roll_out(fleet, "killed"))
    await until(lambda: begun(fleet, "killed"), pause=0.1)
    (leader,) = [c for c in pair if c.process is not None and f"_{c.process.pid}_" in first]
    leader.stop(signal.SIGKILL)
    killed = time.monotonic()
    assert await applied(fleet, "killed") < WORKLOADS * len(fleet.real), (
        "the rollout finished before the leader was killed"
    )
    await until(lambda: is_held(fleet.client, other_than=first), pause=0.1)
    taken = time.monotonic() - killed
    await rolling
    return taken


async def is_held(client: Client, other_than: str = "") -> bool:
    return await holder(client) not in ("", other_than)


async def begun(fleet: RealFleet, namespace: str) -> bool:
    return await applied(fleet, namespace) >= FEWER // 2


@pytest.fixture
def controllers(fleet: RealFleet) -> Iterator[Controllers]:
    process = fleet.controllers("controllers", "--status-seconds=2")
    process.start()
    yield process
    assert process.process is not None
    assert process.process.poll() is None, "the controllers exited"
    process.stop()


def test_nothing_is_lost_during_an_etcd_outage(fleet: RealFleet, controllers: Controllers) -> None:
    fleet.loop.do(until_begun(fleet, "outage"))
    fleet.host.stop_etcd()
    time.sleep(OUTAGE_SECONDS)
    fleet.host.start_etcd()
    fleet.loop.do(until(lambda: complete(fleet, "outage")))
    fleet.loop.do(until(lambda: converged(fleet, "outage", FEWER)))
    fleet.loop.do(nothing_is_duplicated(fleet, "outage", FEWER))
    fleet.loop.do(swept(fleet, "outage"))


async def until_begun(fleet: RealFleet, namespace: str) -> None:
    await roll_out(fleet, namespace, FEWER)
    await until(lambda: begun(fleet, namespace), pause=0.1)


async def complete(fleet: RealFleet, namespace: str) -> bool:
    """Everything that was accepted before still exists."""
    try:
        return len((await fleet.client.list(DEPLOYMENTS, namespace)).items) == FEWER
    except (ApiError, OSError):
        return False


def test_controllers_survive_an_api_server_restart(fleet: RealFleet, controllers: Controllers) -> None:
    fleet.loop.do(until_begun(fleet, "restart"))
    fleet.host.restart_apiserver(signal.SIGKILL)
    fleet.loop.do(until(lambda: converged(fleet, "restart", FEWER)))
    fleet.loop.do(nothing_is_duplicated(fleet, "restart", FEWER))
    fleet.loop.do(swept(fleet, "restart"))
