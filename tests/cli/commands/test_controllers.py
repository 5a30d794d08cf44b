"""`trimtab controllers`: controllers, host and member each run in a process of their own."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from cli.processes import LIMIT, api_server, running, until
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import NotFound
from trimtab.members.join import ClusterFacts, join

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")


async def config_map_data(member: KubeClient) -> dict[str, str]:
    """The data of the ConfigMap in the member, as soon as it is there."""
    found: dict[str, str] = {}

    async def has_arrived() -> bool:
        try:
            found.update((await member.get(CONFIGS, "demo", "conf"))["data"])
        except NotFound:
            return False
        return True

    await until(has_arrived)
    return found


async def wait_until_fully_applied(host: KubeClient) -> None:
    async def is_applied() -> bool:
        binding = await host.get(BINDINGS, "demo", "conf-configmap")
        conditions = (binding.get("status") or {}).get("conditions") or []
        return any(c["type"] == "FullyApplied" and c["status"] == "True" for c in conditions)

    await until(is_applied)


async def propagate_config_map(host: KubeClient) -> None:
    await host.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}})
    place = {"name": "conf", "namespace": "demo"}
    await host.create(CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"k": "v"}})
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "demo", "name": "conf"}
    policy = {
        "apiVersion": POLICIES.api_version,
        "kind": "PropagationPolicy",
        "metadata": place,
        "spec": {"resourceSelectors": [selector], "placement": {}},
    }
    await host.create(POLICIES, policy)


def test_controllers_in_their_own_process_propagate_over_http(tmp_path) -> None:
    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host, api_server(tmp_path / "member") as member:
            credentials = load(tmp_path / "member" / "kubeconfig")
            await join(host, member, "member1", credentials, ClusterFacts(region="eu"))
            async with running("controllers", "--kubeconfig", str(tmp_path / "host" / "kubeconfig"), "--leader-elect"):
                await propagate_config_map(host)
                assert await config_map_data(member) == {"k": "v"}
                await wait_until_fully_applied(host)

    asyncio.run(scenario())


class Candidate:
    """A `trimtab controllers` process that takes part in the election."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._log = log
        flags = ("--kubeconfig", str(kubeconfig), "--leader-elect", "--lease-seconds", "3", "-v")
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trimtab", "controllers", *flags], stdout=output, stderr=subprocess.STDOUT
            )

    async def wait_for_log(self, text: str) -> None:
        async def is_logged() -> bool:
            return text in self._log.read_text()

        await until(is_logged)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait(LIMIT)


def test_paused_leader_changes_nothing_that_its_successor_wrote(tmp_path: Path) -> None:
    async def set_value(host: KubeClient, value: str) -> None:
        await host.patch(CONFIGS, "demo", "conf", {"data": {"k": value}})

    async def wait_for_value(member: KubeClient, value: str) -> None:
        async def has_value() -> bool:
            return (await config_map_data(member))["k"] == value

        await until(has_value)

    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host, api_server(tmp_path / "member") as member:
            await join(host, member, "member1", load(tmp_path / "member" / "kubeconfig"), ClusterFacts())
            await propagate_config_map(host)
            first = Candidate(tmp_path / "host" / "kubeconfig", tmp_path / "first.log")
            await first.wait_for_log("controllers are ready")
            second = Candidate(tmp_path / "host" / "kubeconfig", tmp_path / "second.log")
            try:
                await wait_for_value(member, "v")
                first.pause()
                await set_value(host, "for the paused leader")  # the event waits in its connection
                await second.wait_for_log("controllers are ready")
                await wait_for_value(member, "for the paused leader")
                await set_value(host, "for the successor")
                await wait_for_value(member, "for the successor")
                await wait_until_fully_applied(host)
                versions = await written_versions(host, member)
                first.resume()
                await first.wait_for_log("lost the lease")
                assert await written_versions(host, member) == versions
                assert (await config_map_data(member))["k"] == "for the successor"
            finally:
                first.stop()
                second.stop()

    asyncio.run(scenario())


async def written_versions(host: KubeClient, member: KubeClient) -> list[str]:
    """The versions of everything that the controllers wrote for the ConfigMap."""
    objects = [*(await host.list(WORKS)).items, await host.get(BINDINGS, "demo", "conf-configmap")]
    objects.append(await member.get(CONFIGS, "demo", "conf"))
    return [obj["metadata"]["resourceVersion"] for obj in objects]
