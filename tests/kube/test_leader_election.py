"""On a real kube-apiserver, a process that lost its Lease changes nothing that its successor wrote."""

import asyncio
import signal
import time
from pathlib import Path

from kube.fleet import NAMESPACES, WORKS, ControllersProcess, RealFleet, wait_until
from kube.workloads import delete_namespace

from trimtab.client.client import Client, Resource
from trimtab.errors import NotFound

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
FLAGS = ("--leader-elect", "--lease-seconds=4", "--status-seconds=2", "-v")
SPACE = "fencing"


def wait_for_log(process: ControllersProcess, text: str, after: int = 0) -> None:
    deadline = time.monotonic() + 300
    while text not in process.log.read_text()[after:]:
        assert time.monotonic() < deadline, process.log.read_text()[-2000:]
        time.sleep(0.1)


def send(process: ControllersProcess, number: signal.Signals) -> None:
    assert process.process is not None
    process.process.send_signal(number)


async def propagate(host: Client) -> None:
    await host.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    place = {"name": "conf", "namespace": SPACE}
    await host.create(CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"k": "v"}})
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": SPACE, "name": "conf"}
    spec = {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}
    policy = {"apiVersion": POLICIES.api_version, "kind": "PropagationPolicy", "metadata": place, "spec": spec}
    await host.create(POLICIES, policy)


async def wait_for_value(member: Client, value: str) -> None:
    async def has_value() -> bool:
        try:
            return bool((await member.get(CONFIGS, SPACE, "conf"))["data"]["k"] == value)
        except NotFound:
            return False

    await wait_until(has_value)


async def written_versions(fleet: RealFleet) -> list[str]:
    objects = [*(await fleet.client.list(WORKS)).items, await fleet.members["member1"].get(CONFIGS, SPACE, "conf")]
    return [obj["metadata"]["resourceVersion"] for obj in objects]


def test_leader_that_was_stopped_past_its_lease_changes_nothing_afterwards(fleet: RealFleet, tmp_path: Path) -> None:
    host, member = fleet.client, fleet.members["member1"]
    first = ControllersProcess(fleet.host.kubeconfig, tmp_path / "first.log", *FLAGS)
    second = ControllersProcess(fleet.host.kubeconfig, tmp_path / "second.log", *FLAGS)

    async def take_over() -> list[str]:
        # The event waits in the connection of the stopped process.
        await host.patch(CONFIGS, SPACE, "conf", {"data": {"k": "for the stopped leader"}})
        await wait_for_value(member, "for the stopped leader")
        await host.patch(CONFIGS, SPACE, "conf", {"data": {"k": "for the successor"}})
        await wait_for_value(member, "for the successor")
        await asyncio.sleep(5)  # what the successor still reports is written
        return await written_versions(fleet)

    with first:
        fleet.loop.run(propagate(host))
        fleet.loop.run(wait_for_value(member, "v"))
        second.start()
        send(first, signal.SIGSTOP)
        try:
            versions = fleet.loop.run(take_over())
        finally:
            send(first, signal.SIGCONT)
        wait_for_log(first, "lost the lease")
        assert fleet.loop.run(written_versions(fleet)) == versions
        fleet.loop.run(wait_for_value(member, "for the successor"))
    fleet.loop.run(delete_namespace(fleet, SPACE))
    second.stop()


def test_leader_stops_while_the_api_server_hangs_and_leads_again_afterwards(fleet: RealFleet, tmp_path: Path) -> None:
    server = fleet.host.apiserver.running
    assert server is not None
    with ControllersProcess(fleet.host.kubeconfig, tmp_path / "controllers.log", *FLAGS) as leader:
        before = len(leader.log.read_text())
        server.send_signal(signal.SIGSTOP)  # connections are accepted and nothing answers
        try:
            wait_for_log(leader, "lost the lease", before)
        finally:
            server.send_signal(signal.SIGCONT)
        wait_for_log(leader, "leading as", before)
