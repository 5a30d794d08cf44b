"""CPU of commands a person waits for, with 100 clusters and 5,000 workloads: explain, plan --lose-cluster, version. JSON.

An API server in this process holds the fleet; no controller runs. Each command runs as a process of its own, and its CPU time
(user and system) is measured, start of Python included. A run that is not measured comes first: it leaves the byte code of the
modules in a folder of this benchmark, as the first use of a command does, also where the environment tells Python to write none.

python -m bench.commands [--clusters 100] [--workloads 5000] [--repeat 3]
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    NodeSummary,
    ResourceSummary,
)
from trimtab.api.kinds.policy import Placement
from trimtab.api.kinds.work import (
    AggregatedStatusItem,
    BindingSpec,
    BindingStatus,
    ObjectReference,
    ReplicaRequirements,
    ResourceBinding,
    TargetCluster,
)
from trimtab.api.value import Condition, Meta, Object, Raw
from trimtab.controllers.well_known import APPLIED_PLACEMENT, POLICY_ID_LABELS
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.snapshot import snapshot_of
from trimtab.runtime.declarations import load_declarations
from trimtab.server.daemon import Daemon
from trimtab.server.resources import ObjectPath
from trimtab.server.storage.object_codec import pack
from trimtab.store.txn import PutKey

NOW = datetime.now(UTC).replace(microsecond=0)
NEEDS = {"cpu": "100m", "memory": "128Mi"}
SHARES = 3
"""Clusters of one workload."""


def cluster(number: int) -> Cluster:
    ready = Condition(type="Ready", status="True", reason="ClusterReady", last_transition_time=NOW)
    return Cluster(
        metadata=Meta(name=f"cluster-{number:03}", uid=f"cluster-{number}", generation=1),
        spec=ClusterSpec(sync_mode="Push", region=f"region-{number % 10}"),
        status=ClusterStatus(
            kubernetes_version="v1.32.0",
            api_enablements=(
                APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),
            ),
            conditions=(ready,),
            node_summary=NodeSummary(total_num=10, ready_num=10),
            resource_summary=ResourceSummary(
                allocatable={"cpu": "640", "memory": "2Ti", "pods": "5000"}, allocated={"cpu": "20", "pods": "200"}
            ),
        ),
    )


def placement() -> Placement:
    division = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
    limits = [{"spreadByField": "cluster", "minGroups": SHARES, "maxGroups": SHARES}]
    return msgspec.convert({"replicaScheduling": division, "spreadConstraints": limits}, Placement)


def workload(number: int, clusters: int) -> tuple[ResourceBinding, Raw]:
    name, rule = f"app-{number:05}", placement()
    targets = tuple(
        TargetCluster(name=f"cluster-{at:03}", replicas=2)
        for at in sorted((number + k) % clusters for k in range(SHARES))
    )
    binding = ResourceBinding(
        metadata=Meta(
            name=f"{name}-deployment",
            namespace="default",
            uid=f"binding-{number}",
            generation=1,
            labels={POLICY_ID_LABELS[0]: "policy-1"},
            annotations={APPLIED_PLACEMENT: msgspec.json.encode(rule).decode()},
        ),
        spec=BindingSpec(
            resource=ObjectReference(
                api_version="apps/v1", kind="Deployment", namespace="default", name=name, uid=name
            ),
            replicas=2 * SHARES,
            replica_requirements=ReplicaRequirements(resource_request=dict(NEEDS)),
            clusters=targets,
            placement=rule,
            scheduler_name="default-scheduler",
        ),
        status=BindingStatus(
            scheduler_observed_generation=1,
            last_scheduled_time=NOW,
            conditions=(Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOW),),
            aggregated_status=tuple(
                AggregatedStatusItem(cluster_name=t.name, applied=True, health="Healthy", status={"readyReplicas": 2})
                for t in targets
            ),
        ),
    )
    container = {"name": "main", "image": "app:1", "resources": {"requests": dict(NEEDS)}}
    labels = {"app": name}
    template: Raw = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": {
            "replicas": 2 * SHARES,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    return binding, template


def new_state(clusters: int, workloads: int) -> FleetState:
    load_declarations()
    pairs = [workload(number, clusters) for number in range(workloads)]
    objects: list[Object] = [*(cluster(number) for number in range(clusters)), *(binding for binding, _ in pairs)]
    return FleetState.of(objects, [template for _, template in pairs], NOW)


async def store_state(daemon: Daemon, state: FleetState) -> None:
    raws = [kind_of(thing).encode(thing) for found in state.objects.values() for thing in found.values()]
    raws += [raw for found in state.templates.values() for raw in found.values()]
    writes = []
    for raw in raws:
        served = daemon.api.catalogue.find_kind(raw["apiVersion"], raw["kind"])
        if served is not None:
            path = ObjectPath(served, raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
            writes.append(PutKey(path.key, pack(raw)))
    for start in range(0, len(writes), 1000):
        await daemon.api.store.commit(writes[start : start + 1000])


async def cpu_of(arguments: list[str], kubeconfig: Path) -> dict[str, float]:
    """CPU and wall-clock seconds of one command."""
    before, loop = resource.getrusage(resource.RUSAGE_CHILDREN), asyncio.get_running_loop()
    began = loop.time()
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(kubeconfig.parent / "bytecode"),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trimtab", *arguments, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    code = await process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if code not in (0, 2, 3):
        raise SystemExit(f"trimtab {' '.join(arguments)} exited with {code}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpuSeconds": round(cpu, 3), "seconds": round(loop.time() - began, 3)}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    state = new_state(options.clusters, options.workloads)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        directory = Path(folder)
        (directory / "fleet.json").write_bytes(msgspec.json.encode(snapshot_of(state)))
        daemon = Daemon(directory / "data", "127.0.0.1", 0)
        try:
            await daemon.start()
            await store_state(daemon, state)
            commands = {
                "version": ["version"],
                "explain": ["explain", "deploy/app-00007"],
                "planLoseCluster": ["plan", "--lose-cluster", "cluster-007"],
                "planLoseClusterFromSnapshot": [
                    "plan",
                    "--from",
                    str(directory / "fleet.json"),
                    "--lose-cluster",
                    "cluster-007",
                ],
            }
            results: dict[str, Any] = {"clusters": options.clusters, "workloads": options.workloads}
            for name, arguments in commands.items():
                runs = [await cpu_of(arguments, daemon.kubeconfig) for _ in range(1 + options.repeat)]
                results[name] = min(runs[1:], key=lambda run: run["cpuSeconds"])
            return results
        finally:
            await daemon.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--workloads", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=1))


if __name__ == "__main__":
    main()
