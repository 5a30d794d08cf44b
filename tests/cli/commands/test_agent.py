"""`trimtab agent`: Works of a member in pull mode are applied by its agent and not by the control plane."""

import asyncio
from pathlib import Path

from cli.commands.test_webhook import free_port
from cli.processes import api_server, fetch_page, running, until
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import NotFound
from trimtab.members.join import ClusterFacts, join
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.runtime.observe_only import begin_observing, end_observing

CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")


async def propagate_config_map(host: KubeClient) -> None:
    metadata = {"name": "conf", "namespace": "default"}
    await host.create(CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "name": "conf"}
    policy = {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": metadata,
        "spec": {"resourceSelectors": [selector], "placement": {}},
    }
    await host.create(POLICIES, policy)


def test_agent_applies_works_of_its_member(tmp_path: Path) -> None:
    host_config, member_config = str(tmp_path / "host" / "kubeconfig"), str(tmp_path / "member" / "kubeconfig")

    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host, api_server(tmp_path / "member") as member:
            await join(host, member, "member1", load(member_config), ClusterFacts(), mode="Pull")

            async def has_work() -> bool:
                return any(
                    manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"] == "conf"
                    for work in (await host.list(WORKS)).items
                    for manifest in work["spec"]["workload"]["manifests"]
                )

            async def has_arrived() -> bool:
                try:
                    return bool((await member.get(CONFIGS, "default", "conf"))["data"] == {"k": "v"})
                except NotFound:
                    return False

            agent = ("agent", "member1", "--kubeconfig", member_config, "--host-kubeconfig", host_config)
            async with running("controllers", "--kubeconfig", host_config), running(*agent):
                await propagate_config_map(host)
                await until(has_work)
                await until(has_arrived)

    asyncio.run(scenario())


def test_agent_writes_nothing_in_its_member_while_the_host_only_observes(tmp_path: Path) -> None:
    """Neither what restored Works say, nor what was left before the cluster joined."""
    host_config, member_config = str(tmp_path / "host" / "kubeconfig"), str(tmp_path / "member" / "kubeconfig")

    async def scenario() -> None:
        async with api_server(tmp_path / "host") as host, api_server(tmp_path / "member") as member:
            await join(host, member, "member1", load(member_config), ClusterFacts(), mode="Pull")
            annotations = {
                "work.karmada.io/namespace": "karmada-es-member1",
                "work.karmada.io/name": "gone",
                "trimtab.dev/control-plane": (await read_identity(host)).own,
            }
            labels = {"karmada.io/managed": "true"}
            metadata = {"name": "left", "namespace": "default", "labels": labels, "annotations": annotations}
            await member.create(CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
            await begin_observing(host, "restored")
            health = f"127.0.0.1:{free_port()}"
            agent = ("agent", "member1", "--kubeconfig", member_config, "--host-kubeconfig", host_config)

            async def observes() -> bool:
                return "observe-only (restored)" in (await fetch_page(f"http://{health}/readyz")).text

            async def is_deleted() -> bool:
                names = [one["metadata"]["name"] for one in (await member.list(CONFIGS, "default")).items]
                return "left" not in names

            async with running(*agent, "--health-address", health):
                await until(observes)
                assert not await is_deleted()
                await end_observing(host)
                await until(is_deleted)

    asyncio.run(scenario())
