"""The controllers survive failures of real control planes: a killed leader, stopped etcd, a restarted API server."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from kube.fleet import NAMESPACES, WORKS, ControllersProcess, RealFleet, all_ready, wait_until
from kube.workloads import BINDINGS, DEPLOYMENTS, POLICIES, delete_namespace, deployment, policy

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
    await wait_until(lambda: all_ready(fleet))
    client = fleet.client
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await client.create(POLICIES, policy(namespace))
    for number in range(count):
        await client.create(DEPLOYMENTS, deployment(namespace, number))


async def count_copies(fleet: RealFleet, namespace: str) -> int:
    """The number of copies of workloads in all members."""
    return sum([len((await member.list(DEPLOYMENTS, namespace)).items) for member in fleet.members.values()])


async def has_converged(fleet: RealFleet, namespace: str, count: int = WORKLOADS) -> bool:
    """Every workload is ready in every member, and the status of its template on the host reports it."""
    try:
        templates = (await fleet.client.list(DEPLOYMENTS, namespace)).items
    except (ApiError, OSError):
        return False
    ready = [(template.get("status") or {}).get("readyReplicas") for template in templates]
    return ready == [len(fleet.real_members)] * count


async def assert_no_duplicates(fleet: RealFleet, namespace: str, count: int = WORKLOADS) -> None:
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


async def lease_holder(client: Client) -> str:
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
        seconds = fleet.loop.run(kill_leader(fleet, pair))
        record_property("lease changed hands after seconds", round(seconds, 1))
        assert seconds <= LEASE_SECONDS + SLACK_SECONDS
        fleet.loop.run(wait_until(lambda: has_converged(fleet, "killed")))
        fleet.loop.run(assert_no_duplicates(fleet, "killed"))
        fleet.loop.run(delete_namespace(fleet, "killed"))
    finally:
        for process in pair:
            process.stop()


async def kill_leader(fleet: RealFleet, pair: list[ControllersProcess]) -> float:
    """Kill the leader during a rollout; returns the seconds without a leader."""
    await wait_until(lambda: has_holder(fleet.client))
    first = await lease_holder(fleet.client)
    rolling = asyncio.create_task(roll_out(fleet, "killed"))
    await wait_until(lambda: has_begun(fleet, "killed"), pause=0.1)
    (leader,) = [c for c in pair if c.process is not None and f"_{c.process.pid}_" in first]
    leader.stop(signal.SIGKILL)
    killed = time.monotonic()
    assert await count_copies(fleet, "killed") < WORKLOADS * len(fleet.real_members), (
        "the rollout finished before the leader was killed"
    )
    await wait_until(lambda: has_holder(fleet.client, other_than=first), pause=0.1)
    taken = time.monotonic() - killed
    await rolling
    return taken


async def has_holder(client: Client, other_than: str = "") -> bool:
    return await lease_holder(client) not in ("", other_than)


async def has_begun(fleet: RealFleet, namespace: str) -> bool:
    return await count_copies(fleet, namespace) >= FEWER // 2


@pytest.fixture
def controllers(fleet: RealFleet) -> Iterator[ControllersProcess]:
    process = fleet.controllers("controllers", "--status-seconds=2")
    process.start()
    yield process
    assert process.process is not None
    assert process.process.poll() is None, "the controllers exited"
    process.stop()


def test_nothing_is_lost_during_an_etcd_outage(fleet: RealFleet, controllers: ControllersProcess) -> None:
    fleet.loop.run(wait_until_begun(fleet, "outage"))
    fleet.host.stop_etcd()
    time.sleep(OUTAGE_SECONDS)
    fleet.host.start_etcd()
    fleet.loop.run(wait_until(lambda: is_complete(fleet, "outage")))
    fleet.loop.run(wait_until(lambda: has_converged(fleet, "outage", FEWER)))
    fleet.loop.run(assert_no_duplicates(fleet, "outage", FEWER))
    fleet.loop.run(delete_namespace(fleet, "outage"))


async def wait_until_begun(fleet: RealFleet, namespace: str) -> None:
    await roll_out(fleet, namespace, FEWER)
    await wait_until(lambda: has_begun(fleet, namespace), pause=0.1)


async def is_complete(fleet: RealFleet, namespace: str) -> bool:
    """Everything that was accepted before still exists."""
    try:
        return len((await fleet.client.list(DEPLOYMENTS, namespace)).items) == FEWER
    except (ApiError, OSError):
        return False


def test_controllers_survive_an_api_server_restart(fleet: RealFleet, controllers: ControllersProcess) -> None:
    fleet.loop.run(wait_until_begun(fleet, "restart"))
    fleet.host.restart_apiserver(signal.SIGKILL)
    fleet.loop.run(wait_until(lambda: has_converged(fleet, "restart", FEWER)))
    fleet.loop.run(assert_no_duplicates(fleet, "restart", FEWER))
    fleet.loop.run(delete_namespace(fleet, "restart"))
