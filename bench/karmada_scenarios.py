"""The fleets and bindings of the Karmada measurements at any size, from the same seed and draws."""

import random
from typing import Any

STRATEGIES = ("duplicated", "static", "dynamic", "aggregated", "spread-region")
PLACEMENTS, BINDINGS = 20, 2000

_REGIONS = 10
_APIS = {
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "v1": ("ConfigMap", "Secret", "Service", "Pod", "ServiceAccount"),
    "batch/v1": ("Job", "CronJob"),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding"),
    "policy/v1": ("PodDisruptionBudget",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
}
_SCHEDULING: dict[str, dict[str, Any]] = {
    "duplicated": {"replicaSchedulingType": "Duplicated"},
    "static": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {
            "staticWeightList": [
                {"targetCluster": {"labelSelector": {"matchLabels": {"tier": tier}}}, "weight": weight}
                for tier, weight in (("gold", 5), ("silver", 3), ("bronze", 1))
            ]
        },
    },
    "dynamic": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    },
    "aggregated": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    "spread-region": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
}


def scenario(size: int) -> dict[str, Any]:
    """`clusters`, and per strategy 20 `placements` and 2,000 `bindings` that refer to them, in wire format."""
    rng = random.Random(4242 + size)
    clusters = [_cluster(rng, number) for number in range(size)]
    names = [cluster["metadata"]["name"] for cluster in clusters]
    strategies = []
    for strategy in STRATEGIES:
        placements = [_placement(rng, strategy, number, names) for number in range(PLACEMENTS)]
        bindings = [_binding(rng, number, names) for number in range(BINDINGS)]
        strategies.append({"name": strategy, "placements": placements, "bindings": bindings})
    return {"seed": 4242 + size, "clusters": clusters, "strategies": strategies}


def _cluster(rng: random.Random, number: int) -> dict[str, Any]:
    region = f"region-{rng.randrange(_REGIONS):02}"
    pods = rng.choice([110, 220, 550, 1100, 2200])
    cpu = pods * rng.choice([1, 2]) // 4
    used = rng.random() * 0.8
    labels = {"env": rng.choice(["prod", "stage", "dev"]), "tier": rng.choice(["gold", "silver", "bronze"])}
    spec: dict[str, Any] = {
        "syncMode": "Push",
        "provider": rng.choice(["aws", "gcp", "azure"]),
        "region": region,
        "zones": [f"{region}-{rng.choice('abc')}"],
    }
    if rng.random() < 0.03:
        spec["taints"] = [{"key": "maint", "effect": "NoSchedule"}]
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": f"member{number:05}", "labels": labels},
        "spec": spec,
        "status": _status(cpu, pods, used),
    }


def _status(cpu: int, pods: int, used: float) -> dict[str, Any]:
    conditions = [("Ready", "ClusterReady"), ("CompleteAPIEnablements", "x")]
    return {
        "apiEnablements": [
            {"groupVersion": group, "resources": [{"name": kind.lower() + "s", "kind": kind} for kind in kinds]}
            for group, kinds in _APIS.items()
        ],
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_, reason in conditions
        ],
        "resourceSummary": {
            "allocatable": {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": str(pods)},
            "allocated": {
                "cpu": f"{int(cpu * 1000 * used)}m",
                "memory": f"{int(cpu * 4096 * used)}Mi",
                "pods": str(int(pods * used)),
            },
        },
    }


def _placement(rng: random.Random, strategy: str, number: int, names: list[str]) -> dict[str, Any]:
    placement: dict[str, Any] = {}
    affinity = _affinity(rng, number % 5, names)
    if affinity:
        placement["clusterAffinity"] = affinity
    if rng.random() < 0.5:
        placement["clusterTolerations"] = [{"key": "maint", "operator": "Exists"}]
    placement["replicaScheduling"] = _SCHEDULING[strategy]
    if strategy == "spread-region":
        placement["spreadConstraints"] = [
            {"spreadByField": "region", "minGroups": 2, "maxGroups": 3},
            {"spreadByField": "cluster", "minGroups": 2 + number % 3, "maxGroups": 6},
        ]
    return placement


def _affinity(rng: random.Random, way: int, names: list[str]) -> dict[str, Any]:
    if way == 1:
        return {"labelSelector": {"matchLabels": {"env": rng.choice(["prod", "stage", "dev"])}}}
    if way == 2:
        providers = rng.sample(["aws", "gcp", "azure"], 2)
        return {"fieldSelector": {"matchExpressions": [{"key": "provider", "operator": "In", "values": providers}]}}
    if way == 3:
        return {"clusterNames": sorted(rng.sample(names, max(5, len(names) // 10)))}
    if way == 4:
        return {"exclude": sorted(rng.sample(names, max(1, len(names) // 20)))}
    return {}


def _binding(rng: random.Random, number: int, names: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": f"ns{number % 50}",
            "name": f"app-{number}",
            "uid": f"{rng.getrandbits(32):08x}-0000-4000-8000-{number:012x}",
        },
        "replicas": rng.choice([1, 2, 3, 5, 10, 20, 50, 100]),
        "replicaRequirements": {
            "resourceRequest": {
                "cpu": rng.choice(["100m", "250m", "500m", "1"]),
                "memory": rng.choice(["128Mi", "512Mi", "1Gi"]),
            }
        },
    }
    if rng.random() < 0.3:
        spec["clusters"] = [
            {"name": name, "replicas": rng.randint(1, 5)} for name in rng.sample(names, rng.randint(1, 3))
        ]
    return {"placement": number % PLACEMENTS, "spec": spec}
