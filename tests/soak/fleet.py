"""A control plane and its members in processes of their own, and everything that the driver does to them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import Any

from soak.ledger import Ledger
from soak.partition import Relay, free_port
from soak.processes import ServerProcess
from soak.recorder import DEPLOYMENTS, PODS, Recorder
from soak.snapshot import NAMESPACE, MemberState, Snapshot
from trimtab import errors
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.value import Object, Raw
from trimtab.client.client import Resource, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError, Conflict, InputError, NotFound
from trimtab.members.join import ClusterFacts, join

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ANSWER_SECONDS = 20.0
"""A request without an answer for so long counts as failed; it may still be carried out."""
SETTINGS = {
    "cluster-failure-threshold": 5,
    "cluster-success-threshold": 5,
    "evacuate-after-seconds": 15,
    "graceful-eviction-timeout": 60,
    "move-timeout-seconds": 60,
}
"""Short times, so that a run of a few minutes contains failovers."""
STORAGE_FULL = "StorageFull"
"""The refusal of writes on a full disk; a server that knows it answers with nothing else."""


class Member:
    """A member process, its direct client, and the relay through which the control plane reaches it."""

    def __init__(self, name: str, directory: Path) -> None:
        port = free_port()
        self.process = ServerProcess(name, directory, "member", name, str(directory), str(port))
        self.relay = Relay(port)
        self.client: KubeClient

    async def start(self) -> None:
        await self.relay.start()
        await self.process.start()
        self.client = self.process.client()

    async def stop(self) -> None:
        if hasattr(self, "client"):
            await self.client.close()
        self.process.stop()
        await self.relay.stop()


class Fleet:
    """The processes, the recorded history and the acknowledged writes of one run."""

    def __init__(self, directory: Path, members: int) -> None:
        self.recorder = Recorder()
        self.ledger = Ledger()
        self.refusals: list[str] = []
        """Answers that must not occur."""
        settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
        self.plane = ServerProcess(
            "plane",
            directory / "plane",
            *("up", "--no-fleet", "--data-dir", str(directory / "plane"), "--port", str(free_port()), *settings),
        )
        self.members = {name: Member(name, directory / name) for name in (f"m{n}" for n in range(1, members + 1))}
        self.host: KubeClient
        self.is_disk_full = False

    async def start(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.plane.start())
            for member in self.members.values():
                group.create_task(member.start())
        self.host = self.plane.client()
        for name, member in self.members.items():
            await self.join(name)
            self.recorder.follow_member(name, member.client)
        self.recorder.follow_host(self.host)

    async def stop(self) -> None:
        await self.recorder.stop()
        for member in self.members.values():
            await member.stop()
        if hasattr(self, "host"):
            await self.host.close()
        self.plane.stop()

    # writes

    async def write(self, name: str, value: Hashable, action: Callable[[], Awaitable[Any]]) -> bool:
        """Carry out a write and note in the ledger what it may have done; returns whether it was acknowledged."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await action()
        except (OSError, TimeoutError):
            self.ledger.attempt(name, value)
        except ApiError as fault:
            self.ledger.attempt(name, value)
            may_fail = self.is_disk_full and not hasattr(errors, STORAGE_FULL)
            if fault.reason == "InternalError" and not may_fail:
                self.refusals.append(f"{name}: {fault.reason}: {fault.message}")
        else:
            self.ledger.acknowledge(name, value)
            return True
        return False

    async def create(self, kind: type[Object] | Resource, body: Raw, value: Hashable = "there") -> bool:
        resource = kind if isinstance(kind, Resource) else resource_of(kind_of(kind))
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        label = f"{resource.kind} {body['metadata']['name']}"
        return await self.write(label, value, lambda: self.host.create(resource, whole))

    async def patch(self, kind: type[Object] | Resource, name: str, patch: Raw, value: Hashable) -> bool:
        """Patch only the version that was read: a request that arrives late then changes nothing."""
        resource = kind if isinstance(kind, Resource) else resource_of(kind_of(kind))

        async def read_and_patch() -> None:
            while True:
                version = (await self.host.get(resource, NAMESPACE, name))["metadata"]["resourceVersion"]
                with contextlib.suppress(Conflict):
                    body = {**patch, "metadata": {"resourceVersion": version}}
                    await self.host.patch(resource, NAMESPACE, name, body)
                    return

        return await self.write(f"{resource.kind} {name}", value, read_and_patch)

    async def delete(self, kind: type[Object] | Resource, name: str) -> bool:
        resource = kind if isinstance(kind, Resource) else resource_of(kind_of(kind))

        async def delete() -> None:
            with contextlib.suppress(NotFound):
                await self.host.delete(resource, NAMESPACE, name)

        return await self.write(f"{resource.kind} {name}", "absent", delete)

    async def lost_writes(self) -> list[str]:
        """Acknowledged writes that the server does not show any more."""
        found: dict[str, Hashable] = {}
        for raw in (await self.host.list(DEPLOYMENTS, NAMESPACE)).items:
            found[f"Deployment {raw['metadata']['name']}"] = raw["spec"]["replicas"]
        for raw in (await self.host.list(CONFIG_MAPS, NAMESPACE)).items:
            found[f"ConfigMap {raw['metadata']['name']}"] = raw["data"]["value"]
        for type_ in (DisruptionBudget, WorkloadRebalancer):
            for raw in (await self.host.list(resource_of(kind_of(type_)))).items:
                found[f"{type_.__name__} {raw['metadata']['name']}"] = "there"
        for raw in (await self.host.list(resource_of(kind_of(PropagationPolicy)), NAMESPACE)).items:
            found[f"PropagationPolicy {raw['metadata']['name']}"] = raw["metadata"]["labels"]["variant"]
        return list(self.ledger.violations(found))

    # members

    async def join(self, name: str) -> None:
        """Join a member through its relay; a join that was interrupted is repeated."""
        member = self.members[name]
        credentials = load(member.process.kubeconfig)._replace(
            server=f"https://127.0.0.1:{member.relay.port}", files=()
        )
        through_relay = KubeClient(credentials)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await join(self.host, through_relay, name, credentials, ClusterFacts(region="r1", zones=(f"z-{name}",)))
        finally:
            await through_relay.close()

    async def try_join(self, name: str) -> bool:
        try:
            await self.join(name)
        except (ApiError, OSError, TimeoutError, InputError):
            return False
        return True

    async def cluster(self, name: str) -> Raw | None:
        try:
            return await self.host.get(resource_of(kind_of(Cluster)), "", name)
        except NotFound:
            return None

    # state

    async def snapshot(self) -> Snapshot:
        async def listed(type_: type[Object]) -> list[Raw]:
            return list((await self.host.list(resource_of(kind_of(type_)))).items)

        members = {}
        for name, member in self.members.items():
            deployments = await member.client.list(DEPLOYMENTS, NAMESPACE)
            pods = await member.client.list(PODS, NAMESPACE)
            members[name] = MemberState(list(deployments.items), list(pods.items))
        return Snapshot(
            templates=list((await self.host.list(DEPLOYMENTS, NAMESPACE)).items),
            bindings=await listed(ResourceBinding),
            works=await listed(Work),
            moves=await listed(Move),
            clusters=await listed(Cluster),
            members=members,
        )
