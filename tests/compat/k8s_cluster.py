"""Builds a cluster from a recorded descheduler run and runs one strategy on it."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from trimtab import plugins
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import UPSTREAM, Profile
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import CycleLimits, DeschedulingCycle
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.descheduling.movers import run_mover

plugins.load()

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
GPU = "example.com/gpu"


def cluster_view(case: dict[str, Any]) -> ClusterView:
    nodes = msgspec.convert([node(entry) for entry in case["nodes"]], list[Node], strict=False)
    pods = msgspec.convert([pod(entry) for entry in case.get("pods") or []], list[Pod], strict=False)
    return ClusterView.of(nodes, pods, now=NOON)


def evictor(case: dict[str, Any]) -> EvictorArgs:
    given = dict(case.get("evictor") or {})
    threshold = given.pop("priorityThresholdValue", None)
    if threshold is not None:
        given["priorityThreshold"] = {"value": threshold}
    return msgspec.convert(given, EvictorArgs, strict=False)


def limits(case: dict[str, Any]) -> CycleLimits:
    given = case.get("evictor") or {}
    return CycleLimits(*(given.get(f"maxPodsToEvict{scope}") for scope in ("PerNode", "PerNamespace", "Total")))


def evicted_pods(case: dict[str, Any], arguments: dict[str, Any], profile: Profile = UPSTREAM) -> list[str]:
    """Namespace and name of each evicted pod, in order."""
    cycle = DeschedulingCycle(cluster_view(case), profile, limits(case))
    run_mover(case["plugin"], arguments, cycle, evictor(case))
    return [f"{eviction.pod.namespace}/{eviction.pod.name}" for eviction in cycle.evictions]


def case_differences(case: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """Differences from the recording: lists are compared in order where the order is defined, else as sets."""
    want, have = list(case.get("evicted") or []), evicted_pods(case, arguments)
    found = []
    if not case["ordered"]:
        want, have = sorted(want), sorted(have)
    if want != have:
        found.append(f"evicted: recorded {want}, ours {have}")
    counts = per_node(case, have)
    if counts != (case.get("evictedPerNode") or {}):
        found.append(f"per node: recorded {case.get('evictedPerNode')}, ours {counts}")
    return found


def per_node(case: dict[str, Any], names: Iterable[str]) -> dict[str, int]:
    where = {f"{entry['namespace']}/{entry['name']}": entry["node"] for entry in case.get("pods") or []}
    counts: dict[str, int] = {}
    for name in names:
        counts[where[name]] = counts.get(where[name], 0) + 1
    return counts


def node(entry: dict[str, Any]) -> dict[str, Any]:
    size = {"cpu": f"{entry['cpuMilli']}m", "memory": entry["memBytes"], "pods": entry["pods"]}
    if "gpu" in entry:
        size[GPU] = entry["gpu"]
    return {
        "metadata": {"name": entry["name"], "labels": entry.get("labels") or {}},
        "spec": {"unschedulable": entry.get("unschedulable", False), "taints": entry.get("taints") or []},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(entry: dict[str, Any]) -> dict[str, Any]:
    spec_fields = ("tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "priority")
    return {
        "metadata": metadata(entry),
        "spec": {
            "nodeName": entry["node"],
            "containers": [container(entry)],
            "volumes": volumes(entry),
            **{field: entry[field] for field in spec_fields if entry.get(field) is not None},
        },
        "status": status(entry),
    }


def metadata(entry: dict[str, Any]) -> dict[str, Any]:
    kind, _, name = entry.get("owner", "").partition("/")
    uid = f"{entry['namespace']}-{kind}-{name}"
    return {
        "name": entry["name"],
        "namespace": entry["namespace"],
        "labels": entry.get("labels") or {},
        "annotations": entry.get("annotations") or {},
        "creationTimestamp": NOON - timedelta(seconds=entry.get("ageSeconds", 86400)),
        "deletionTimestamp": NOON if entry.get("terminating") else None,
        "ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}] if name else [],
    }


def container(entry: dict[str, Any]) -> dict[str, Any]:
    requests: dict[str, Any] = {}
    if not entry.get("noRequests"):
        requests = {"cpu": f"{entry['cpuMilli']}m", "memory": entry["memBytes"]}
        if entry.get("gpu"):
            requests[GPU] = entry["gpu"]
    limits = requests if entry.get("guaranteed") else {}
    return {"name": "c", "image": entry.get("image", ""), "resources": {"requests": requests, "limits": limits}}


def volumes(entry: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if entry.get("emptyDir"):
        found.append({"name": "scratch", "emptyDir": {}})
    if entry.get("pvc"):
        found.append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    return found


def status(entry: dict[str, Any]) -> dict[str, Any]:
    statuses = [{"name": f"c{i}", "restartCount": count} for i, count in enumerate(entry.get("restartCounts") or [0])]
    statuses[0]["state"] = state(entry)
    init = entry.get("initRestartCount")
    return {
        "phase": entry.get("phase", "Running"),
        "reason": entry.get("statusReason", ""),
        "startTime": NOON - timedelta(hours=24),
        "containerStatuses": statuses,
        "initContainerStatuses": [{"name": "i", "restartCount": init}] if init is not None else [],
    }


def state(entry: dict[str, Any]) -> dict[str, Any]:
    if "waitingReason" in entry:
        return {"waiting": {"reason": entry["waitingReason"]}}
    if "terminatedReason" in entry:
        return {"terminated": {"reason": entry["terminatedReason"], "exitCode": entry.get("exitCode", 0)}}
    return {}
