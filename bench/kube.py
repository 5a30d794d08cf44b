"""Requests and CPU of our controllers on a real kube-apiserver: `python -m bench.kube [--workloads 200]`.

The reference workload: N Deployments of 6 replicas, one policy that exists before them, static weights 1:2:3, three
members without workload controllers. The host's audit log counts the requests of our controllers by verb and
resource, from the first create until shortly after every binding is fully applied; watches are excluded, as in
the reference. CPU is that of our one process until everything is fully applied. Prints JSON. Needs `make kube`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from bench.processes import CpuSpeedProbe, machine  # noqa: E402 - the tests directory has to be importable first
from bench.recorded import print_changes  # noqa: E402
from kube.fleet import NAMESPACES, RealFleet, all_ready, wait_until  # noqa: E402

from trimtab.client.client import Resource  # noqa: E402

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
NAMESPACE = "bench"
CLIENTS = 4
SILENCE_SECONDS = 5.0
OURS = "trimtab-controllers/"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
KARMADA = {"requestsPerWorkload": 38.0, "eventsPerWorkload": 9.4, "cpuMsPerWorkload": 87.7, "seconds": 49.3}
"""A live Karmada with raised limits: requests and CPU of its controller manager and scheduler; events separately."""
TARGETS = {"requestsPerWorkload": 12, "cpuMsPerWorkload": 20}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--profile", default="trimtab", choices=("trimtab", "upstream"))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as directory:
        measured = measure(Path(directory), given.workloads, given.profile)
    figures = {"part": "kube", "machine": machine(), **measured, "aims": TARGETS, "karmada": KARMADA}
    print(json.dumps(figures, indent=1))
    print_changes("kube", figures, sys.stderr)


def measure(directory: Path, workloads: int, profile: str) -> dict[str, Any]:
    policy, audit = directory / "audit-policy.json", directory / "audit.log"
    policy.write_text(json.dumps(AUDIT))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-mode=batch")
    with RealFleet(directory, pods=False, host_flags=flags) as fleet:
        controllers = fleet.controllers("controllers", f"--profile={profile}")
        controllers.start()
        try:
            fleet.loop.run(prepare_fleet(fleet))
            started_at, clock, cpu = datetime.now(UTC), time.monotonic(), controllers.cpu_seconds()
            loops = fleet.loop.run(create_workloads(fleet, workloads))
            seconds, spent = time.monotonic() - clock, controllers.cpu_seconds() - cpu
            time.sleep(SILENCE_SECONDS)
        finally:
            controllers.stop()
    requests = count_requests(audit, started_at)
    events = sum(count for what, count in requests.items() if what.endswith(" events"))
    return {
        "workloads": workloads,
        "profile": profile,
        "seconds": round(seconds, 2),
        "cpuMsPerWorkload": round(spent * 1000 / workloads, 2),
        "loopMs": loops,
        "requestsPerWorkload": round((sum(requests.values()) - events) / workloads, 2),
        "eventsPerWorkload": round(events / workloads, 2),
        "requests": {what: round(count / workloads, 3) for what, count in requests.most_common()},
    }


def count_requests(audit: Path, since: datetime) -> Counter[str]:
    """The requests of our controllers by verb and resource, without watches."""
    found: Counter[str] = Counter()
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        if (
            event["userAgent"].startswith(OURS)
            and event["verb"] != "watch"
            and "resource" in about
            and datetime.fromisoformat(event["requestReceivedTimestamp"]) >= since
        ):
            subresource = f"/{about['subresource']}" if about.get("subresource") else ""
            found[f"{event['verb']} {about['resource']}{subresource}"] += 1
    return found


async def prepare_fleet(fleet: RealFleet) -> None:
    """Every member is Ready and has the namespace only."""
    await wait_until(lambda: all_ready(fleet))
    await fleet.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await fleet.client.create(POLICIES, policy([*fleet.real_members]))
    await asyncio.sleep(SILENCE_SECONDS)


async def create_workloads(fleet: RealFleet, workloads: int) -> dict[str, float]:
    """Create them and wait until all are applied; returns the speed of the processor meanwhile."""
    pace, numbers = CpuSpeedProbe(), iter(range(workloads))

    async def create() -> None:
        for number in numbers:
            await fleet.client.create(DEPLOYMENTS, deployment(number))

    await asyncio.gather(*(create() for _ in range(CLIENTS)))
    await wait_until(lambda: all_applied(fleet, workloads))
    return pace.stop()


async def all_applied(fleet: RealFleet, workloads: int) -> bool:
    bindings = (await fleet.client.list(BINDINGS, NAMESPACE)).items
    applied = [
        binding
        for binding in bindings
        if any(
            c["type"] == "FullyApplied" and c["status"] == "True"
            for c in (binding.get("status") or {}).get("conditions") or []
        )
    ]
    return len(applied) == workloads


def policy(members: list[str]) -> dict[str, Any]:
    weights = [
        {"targetCluster": {"clusterNames": [name]}, "weight": number} for number, name in enumerate(sorted(members), 1)
    ]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"namespace": NAMESPACE, "name": "all"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": weights},
                }
            },
        },
    }


def deployment(number: int) -> dict[str, Any]:
    name = f"web-{number}"
    container = {"name": "web", "image": "registry.example/web:1", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


if __name__ == "__main__":
    main(sys.argv[1:])
