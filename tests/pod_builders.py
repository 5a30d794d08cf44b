"""Builders of nodes and pods for tests."""

from typing import Any

import msgspec

from trimtab import plugins
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod

plugins.load()

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 10,
    zone: str = "",
    labels: dict[str, str] | None = None,
    taints: list[str] | None = None,
    cordoned: bool = False,
    images: dict[str, int] | None = None,
) -> Node:
    """Taints are written `key=value:Effect`."""
    size = {"cpu": cpu, "memory": memory, "pods": pods}
    all_labels = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **(labels or {})}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": all_labels},
            "spec": {"unschedulable": cordoned, "taints": [taint(text) for text in taints or []]},
            "status": {
                "allocatable": size,
                "capacity": size,
                "images": [{"names": [image], "sizeBytes": bytes_} for image, bytes_ in (images or {}).items()],
            },
        },
        Node,
        strict=False,
    )


def taint(text: str) -> dict[str, str]:
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str,
    on: str = "",
    *,
    cpu: str = "100m",
    memory: str = "64Mi",
    app: str = "web",
    namespace: str = "default",
    priority: int | None = None,
    owner: str = "ReplicaSet/web",
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    image: str = "web:1",
    ports: tuple[int, ...] = (),
    **spec: Any,
) -> Pod:
    kind, _, owner_name = owner.partition("/")
    references = (
        [{"kind": kind, "name": owner_name, "uid": f"{namespace}-{owner}", "controller": True}] if owner else []
    )
    container = {
        "name": "c",
        "image": image,
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        "ports": [{"hostPort": port, "containerPort": port} for port in ports],
    }
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": app},
                "ownerReferences": references,
                **(metadata or {}),
            },
            "spec": {
                "nodeName": on,
                "containers": [container],
                **({"priority": priority} if priority is not None else {}),
                **spec,
            },
            "status": {"phase": "Running" if on else "Pending", **(status or {})},
        },
        Pod,
        strict=False,
    )


def selector(app: str = "web") -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}}


def pod_affinity(key: str, app: str = "web", *, weight: int = 0, anti: bool = False) -> dict[str, Any]:
    """A pod affinity (or anti-affinity) as part of a pod spec; required without a weight."""
    term = {"topologyKey": key, **selector(app)}
    side = "podAntiAffinity" if anti else "podAffinity"
    if weight:
        preferred = [{"weight": weight, "podAffinityTerm": term}]
        return {"affinity": {side: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def topology_spread(key: str, *, skew: int = 1, soft: bool = False, app: str = "web", **more: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        **selector(app),
        **more,
    }
    return {"topologySpreadConstraints": [constraint]}
