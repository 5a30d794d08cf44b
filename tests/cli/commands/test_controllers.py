"""Nothing leans on being in one process: controllers, host and member may each have their own."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import NotFound
from trimtab.members.join import Facts, join

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[None]:
    """A `trimtab` command in a process of its own, from the line that says it is ready until it is told to stop."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trimtab", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while b"ready" not in (line := await process.stdout.readline()):
                assert line, f"{arguments[0]} ended before it was ready"
        yield
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0


@contextlib.asynccontextmanager
async def api_server(directory: Path) -> AsyncIterator[KubeClient]:
    async with running("apiserver", "--data-dir", str(directory), "--port", "0"):
        client = KubeClient(load(directory / "kubeconfig"))
        try:
            yield client
        finally:
            await client.close()


async def arrived(member: KubeClient) -> dict[str, str]:
    """What the member has, as soon as it has it."""
    async with asyncio.timeout(60):
        while True:
            try:
                found: dict[str, str] = (await member.get(CONFIGS, "demo", "conf"))["data"]
            except NotFound:
                await asyncio.sleep(0.1)
            else:
                return found


async def fully_applied(host: KubeClient) -> None:
    async with asyncio.timeout(60):
        while True:
            binding = await host.get(BINDINGS, "demo", "conf-configmap")
            conditions = (binding.get("status") or {}).get("conditions") or []
            if any(c["type"] == "FullyApplied" and c["status"] == "True" for c in conditions):
                return
            await asyncio.sleep(0.1)


def test_controllers_in_a_process_of_their_own_propagate_over_http(tmp_path) -> None:
    async def story() -> None:
        async with api_server(tmp_path / "host") as host, api_server(tmp_path / "member") as member:
            credentials = load(tmp_path / "member" / "kubeconfig")
            await join(host, member, "member1", credentials, Facts(region="eu"))
            async with running("controllers", "--kubeconfig", str(tmp_path / "host" / "kubeconfig"), "--leader-elect"):
                await host.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}})
                place = {"name": "conf", "namespace": "demo"}
                await host.create(
                    CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"k": "v"}}
                )
                selector = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "demo", "name": "conf"}
                policy = {
                    "apiVersion": POLICIES.api_version,
                    "kind": "PropagationPolicy",
                    "metadata": place,
                    "spec": {"resourceSelectors": [selector], "placement": {}},
                }
                await host.create(POLICIES, policy)
                assert await arrived(member) == {"k": "v"}
                await fully_applied(host)

    asyncio.run(story())
