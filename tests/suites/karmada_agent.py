"""Does what Karmada's agent does at the start and the end, where it runs as a simulated container.

It registers its cluster, reports it ready and releases deleted Works; it applies none. It acts with nothing but the
certificate that `karmadactl register` obtained for the agent, so that the rights which the command grants are used.
"""

import asyncio
import base64
import contextlib
import tempfile
from pathlib import Path
from typing import cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import Clock, timestamp
from trimtab.errors import ApiError, NotFound
from trimtab.runtime.leader_election import LEASES, micro_time
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.member import SimulatedMember

PROGRAM = "/bin/karmada-agent"
SECONDS_BETWEEN_REPORTS = 2.0
CLUSTERS = resource_of(kind_of(Cluster))
WORKS = resource_of(kind_of(Work))
SECRETS = Resource("", "v1", "secrets", "Secret")


def flags_of(pod: Raw) -> dict[str, str]:
    """The flags of the agent in this pod; none if it runs something else."""
    for container in pod["spec"]["containers"]:
        program, *flags = container.get("command") or [""]
        if program == PROGRAM:
            pairs = (flag.removeprefix("--").partition("=") for flag in flags)
            return {name: value for name, _, value in pairs}
    return {}


async def run_agents(member: SimulatedMember, clock: Clock) -> None:
    """Act for the agent of the cluster for as long as its pod is ready; a pod registers the cluster once, when it starts."""
    registered: set[str] = set()
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_REPORTS)
        for entry in list(member.cache.table(PODS).entries.values()):
            flags = flags_of(entry.raw)
            if flags and cast("Pod", entry.typed).is_ready:
                with contextlib.suppress(ApiError, OSError, TimeoutError):
                    host = await host_of(member, entry.raw, flags)
                    try:
                        if (uid := entry.raw["metadata"]["uid"]) not in registered:
                            await register(host, flags)
                            registered.add(uid)
                        await report(host, flags, clock)
                    finally:
                        await host.close()


async def host_of(member: SimulatedMember, pod: Raw, flags: dict[str, str]) -> Client:
    """A client of the control plane with the credentials that are mounted in the pod."""
    secret = next(volume["secret"]["secretName"] for volume in pod["spec"]["volumes"] if "secret" in volume)
    data = (await member.internal_client.get(SECRETS, pod["metadata"]["namespace"], secret))["data"]
    with tempfile.TemporaryDirectory(prefix="trimtab-suites-") as directory:
        path = Path(directory) / "kubeconfig"
        path.write_bytes(base64.b64decode(data[Path(flags["karmada-kubeconfig"]).name]))
        return KubeClient(load(path))


async def report(host: Client, flags: dict[str, str], clock: Clock) -> None:
    await renew_lease(host, flags, clock)
    await report_ready(host, flags["cluster-name"], clock)
    await release_works(host, flags["cluster-name"])


async def register(host: Client, flags: dict[str, str]) -> None:
    name = flags["cluster-name"]
    try:
        await host.get(CLUSTERS, "", name)
    except NotFound:
        spec = {"syncMode": "Pull", "apiEndpoint": flags["cluster-api-endpoint"]}
        kind = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster"}
        await host.create(CLUSTERS, {**kind, "metadata": {"name": name}, "spec": spec}, manager="karmada-agent")


async def renew_lease(host: Client, flags: dict[str, str], clock: Clock) -> None:
    name, namespace = flags["cluster-name"], flags["cluster-namespace"]
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(clock.now())}
    try:
        lease = await host.get(LEASES, namespace, name)
    except NotFound:
        kind = {"apiVersion": LEASES.api_version, "kind": "Lease"}
        metadata = {"name": name, "namespace": namespace}
        await host.create(LEASES, {**kind, "metadata": metadata, "spec": spec}, manager="karmada-agent")
    else:
        await host.replace(LEASES, {**lease, "spec": spec}, manager="karmada-agent")


async def report_ready(host: Client, name: str, clock: Clock) -> None:
    cluster = await host.get(CLUSTERS, "", name)
    status = cluster.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != "Ready"]
    ready: Raw = {
        "type": "Ready",
        "status": "True",
        "reason": "ClusterReady",
        "message": "cluster is healthy and ready to accept workloads",
        "lastTransitionTime": timestamp(clock.now()),
    }
    if not any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()):
        changed = {**cluster, "status": {**status, "conditions": [*others, ready]}}
        await host.replace(CLUSTERS, changed, subresource="status", manager="karmada-agent")


async def release_works(host: Client, name: str) -> None:
    """Remove the finalizers of deleted Works: nothing of them is in the cluster."""
    for work in (await host.list(WORKS, f"karmada-es-{name}")).items:
        metadata = work["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
            released = {**work, "metadata": {**metadata, "finalizers": []}}
            await host.replace(WORKS, released, manager="karmada-agent")
