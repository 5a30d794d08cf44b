"""Pod placements and planned moves per second: our figures beside the published ones, as JSON.

python bench/decide_pods.py [--nodes 1000 5000] [--pods 2000]
"""

import argparse
import json
import random
import resource
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import process_time
from typing import Any

import msgspec
from bench.processes import collect_garbage_as_servers_do, machine

from trimtab import plugins
from trimtab.api.kinds.disruption import ComponentQuota, DisruptionPolicy, DisruptionPolicySpec, DisruptionRate
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod, PodCondition, PodStatus
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.decide.framework import Reason
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import DeschedulingCycle
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.descheduling.movers import run_mover
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.preempt import preempt
from trimtab.decide.pods.schedule import apply_decision, schedule
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import ReschedulingHistory
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import plan_moves as reschedule
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES = 10
SAME_APP = {"labelSelector": {"matchLabels": {"app": "measured"}}}
IN_TWO_ZONES = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]}]}


def spread(key: str, action: str) -> dict[str, Any]:
    constraint = {"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": action, **SAME_APP}
    return {"topologySpreadConstraints": [constraint]}


def required(side: str, key: str) -> dict[str, Any]:
    return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, **SAME_APP}]}}}


def preferred(side: str, key: str) -> dict[str, Any]:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": key, **SAME_APP}}
    return {"affinity": {side: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def node_affinity(kind: str, value: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": value}}}


WORKLOADS: dict[str, tuple[dict[str, Any], float | None]] = {
    "basic": ({}, 790),
    "nodeAffinityRequired": (node_affinity("required", {"nodeSelectorTerms": [IN_TWO_ZONES]}), 540),
    "nodeAffinityPreferred": (node_affinity("preferred", [{"weight": 10, "preference": IN_TWO_ZONES}]), None),
    "spreadZoneRequired": (spread(ZONE, "DoNotSchedule"), 460),
    "spreadZonePreferred": (spread(ZONE, "ScheduleAnyway"), 340),
    "spreadHostnameRequired": (spread(HOSTNAME, "DoNotSchedule"), None),
    "spreadHostnamePreferred": (spread(HOSTNAME, "ScheduleAnyway"), None),
    "podAffinityRequired": (required("podAffinity", ZONE), 70),
    "podAffinityPreferred": (preferred("podAffinity", HOSTNAME), 160),
    "podAntiAffinityRequired": (required("podAntiAffinity", HOSTNAME), 180),
    "podAntiAffinityPreferred": (preferred("podAntiAffinity", HOSTNAME), 190),
}
"""The pod spec, and kube-scheduler's published threshold in pods per second on 5,000 nodes."""

DESCHEDULER_SECONDS = {
    "LowNodeUtilization": {(1000, False): 0.103, (1000, True): 1.19, (5000, False): 0.62, (5000, True): 21.2},
    "HighNodeUtilization": {(1000, False): 0.175, (5000, False): 1.14},
}
"""CPU seconds of the descheduler's plugins: nodes, with fit check."""
NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
READY_STATUS = PodStatus(
    phase="Running", start_time=NOON - timedelta(days=1), conditions=(PodCondition(type="Ready", status="True"),)
)


def node(i: int, cpu: str = "4", memory: str = "32Gi") -> Node:
    name = f"node-{i:05d}"
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{i % ZONES}"}},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
        },
        Node,
    )


def pod(name: str, requests: dict[str, Any], spec: dict[str, Any], **metadata: Any) -> Pod:
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "measured"}, **metadata},
            "spec": {"containers": [container], **spec},
        },
        Pod,
    )


SMALL = {"cpu": "100m", "memory": "500Mi"}


def measured_pods(count: int, spec: dict[str, Any], requests: Callable[[int], dict[str, Any]]) -> list[Pod]:
    return [pod(f"measured-{i}", requests(i), spec) for i in range(count)]


def pods_per_second(nodes: int, pods: list[Pod]) -> float:
    """Decide and book every pod on one snapshot; building the nodes is not timed."""
    fleet = NodeSnapshot.of([node(i) for i in range(nodes)])
    start = process_time()
    for one in pods:
        decision = schedule(one, fleet)
        assert decision.node is not None
        fleet = apply_decision(decision, fleet)
    return len(pods) / (process_time() - start)


def scheduling(nodes: int, count: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (spec, published) in WORKLOADS.items():
        many = min(count, nodes) if name == "podAntiAffinityRequired" else count
        found[name] = compare_with_published(
            pods_per_second(nodes, measured_pods(many, spec, lambda _: SMALL)), published
        )
    mixed = [pod(f"m-{i}", {"cpu": f"{50 + i % 97}m", "memory": f"{100 + i % 89}Mi"}, {}) for i in range(count)]
    found["basicEveryRequestDifferent"] = compare_with_published(pods_per_second(nodes, mixed), 790)
    found["preemption"] = compare_with_published(preemptions_per_second(nodes), 570)
    return found


def compare_with_published(ours: float, published: float | None) -> dict[str, Any]:
    figures: dict[str, Any] = {"podsPerCpuSecond": round(ours), "publishedOn5000Nodes": published}
    return figures | {"ratio": round(ours / published, 1)} if published else figures


def preemptions_per_second(nodes: int) -> float:
    """Find victims for one high-priority pod per node, as in the published test, on a cluster full of low-priority ones."""
    running = [
        pod(f"low-{i}-{j}", {"cpu": "900m", "memory": "500Mi"}, {"nodeName": f"node-{i:05d}", "priority": 0})
        for i in range(nodes)
        for j in range(4)
    ]
    fleet = NodeSnapshot.of([node(i) for i in range(nodes)], running)
    pending = [pod(f"high-{i}", {"cpu": "3", "memory": "500Mi"}, {"priority": 10}) for i in range(nodes)]
    start = process_time()
    for one in pending:
        decision = schedule(one, fleet)
        assert decision.node is None
        found = preempt(decision.pod, fleet, (), UPSTREAM)
        assert not isinstance(found, Reason)
        fleet = fleet.without_pods(found.chosen.victims, found.chosen.node).with_pod_on(decision.pod, found.chosen.node)
    return nodes / (process_time() - start)


def crowded_cluster(nodes: int, per_node: int = 30) -> tuple[list[Node], list[Pod]]:
    """A third of the nodes each with low, medium and high requests; all pods are ready and a day old."""
    rng = random.Random(9000 + nodes)
    pods = []
    for i in range(nodes):
        total = (5000, 18000, 30000)[i % 3]
        for j in range(per_node):
            cpu = max(10, int(total / per_node * rng.uniform(0.7, 1.3)))
            owner = f"rs-{(i * per_node + j) % (nodes * 3)}"
            pods.append(
                pod(
                    f"p-{i:05d}-{j:03d}",
                    {"cpu": f"{cpu}m", "memory": cpu * (4 << 20)},
                    {"nodeName": f"node-{i:05d}", "priority": j},
                    uid=f"p-{i:05d}-{j:03d}",
                    namespace=f"ns{j % 7}",
                    ownerReferences=[
                        {"kind": "ReplicaSet", "name": owner, "uid": f"ns{j % 7}-{owner}", "controller": True}
                    ],
                ).but(status=READY_STATUS)
            )
    return [node(i, "32", "128Gi") for i in range(nodes)], pods


def planning(nodes: int) -> dict[str, Any]:
    machines, pods = crowded_cluster(nodes)
    view = ClusterView.of(machines, pods)
    low = {"thresholds": {"cpu": 20, "memory": 20}, "targetThresholds": {"cpu": 70, "memory": 70}}
    high = {"thresholds": {"cpu": 20, "memory": 20}}
    return {
        "lowNodeUtilization": plan(view, "LowNodeUtilization", low, UPSTREAM, fit=False),
        "lowNodeUtilizationWithFitCheck": plan(view, "LowNodeUtilization", low, UPSTREAM, fit=True),
        "lowNodeUtilizationOnWorkingSnapshot": plan(view, "LowNodeUtilization", low, TRIMTAB, fit=True),
        "highNodeUtilization": plan(view, "HighNodeUtilization", high, UPSTREAM, fit=False),
        "underutilisedNodes": rescheduling(ClusterObjects(machines, pods), fit=False),
        "underutilisedNodesWithFitCheck": rescheduling(ClusterObjects(machines, pods), fit=True),
    }


def rescheduling(facts: ClusterObjects, *, fit: bool) -> dict[str, Any]:
    """One round of our rescheduler with the most aggressive preset, including owners, budgets and history.

    The snapshot is built first and timed separately, as an informer cache is filled before the descheduler plans.
    """
    limits = {"low": {"cpu": 20, "memory": 20}, "high": {"cpu": 70, "memory": 70}}
    known = {one.name: one.args for one in objectives.values()}
    wanted = {"preset": "aggressive", "requireFit": fit, "objectives": [{"name": "UnderutilisedNodes", "args": limits}]}
    settings = read_settings(wanted, known)
    unhindered = ComponentQuota(component="rescheduler", rate=DisruptionRate(disruptions=1000, period="10m"))
    policy = DisruptionPolicy(spec=DisruptionPolicySpec(component_quotas=(unhindered,)))
    start = process_time()
    snapshot = ReschedulingSnapshot(facts._replace(policy=policy), settings, ReschedulingHistory(), NOON)
    seen = process_time()
    found = reschedule(snapshot)
    seconds = process_time() - seen
    figures = {
        "cpuSeconds": round(seconds, 3),
        "evictions": len(found.moves),
        "snapshotSeconds": round(seen - start, 3),
    }
    published = DESCHEDULER_SECONDS["LowNodeUtilization"].get((len(facts.nodes), fit))
    return figures | ({"descheduler": published, "ratio": round(published / seconds, 1)} if published else {})


def plan(view: ClusterView, name: str, args: dict[str, Any], profile: Profile, *, fit: bool) -> dict[str, Any]:
    cycle = DeschedulingCycle(view, profile)
    start = process_time()
    run_mover(name, args, cycle, EvictorArgs(node_fit=fit))
    seconds = process_time() - start
    figures: dict[str, Any] = {"cpuSeconds": round(seconds, 3), "evictions": len(cycle.evictions)}
    published = DESCHEDULER_SECONDS[name].get((len(view.nodes), fit))
    if published:
        figures |= {"descheduler": published, "ratio": round(published / seconds, 1)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=2000)
    given = parser.parse_args()
    plugins.load()
    collect_garbage_as_servers_do()
    figures: dict[str, Any] = {
        str(nodes): {"scheduling": scheduling(nodes, given.pods), "planning": planning(nodes)} for nodes in given.nodes
    }
    figures["growth"] = {
        f"{a} to {b}": round(
            figures[str(a)]["scheduling"]["basic"]["podsPerCpuSecond"]
            / figures[str(b)]["scheduling"]["basic"]["podsPerCpuSecond"],
            2,
        )
        for a, b in pairwise(given.nodes)
    }
    figures["machine"] = machine()
    figures["peakMebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    json.dump(figures, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
