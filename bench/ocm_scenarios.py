"""Fleets and Placements of any size for measurements of OCM decisions."""

import random
from typing import Any

from trimtab.api.kind import find_kind
from trimtab.api.value import Object

GROUP = "cluster.open-cluster-management.io"
NOW = "2026-03-01T12:00:00Z"
SIZES = (100, 1_000, 3_000, 10_000)
VERSIONS = {
    "ManagedCluster": "v1",
    "ManagedClusterSet": "v1beta2",
    "ManagedClusterSetBinding": "v1beta2",
    "PlacementDecision": "v1beta1",
    "AddOnPlacementScore": "v1alpha1",
    "Placement": "v1beta1",
}
ADD_ON = {"type": "AddOn", "addOn": {"resourceName": "default", "scoreName": "cpuratio"}}
VARIANTS: dict[str, dict[str, Any]] = {
    "A default": {"numberOfClusters": 10},
    "B exact, add-on": {
        "numberOfClusters": 10,
        "prioritizerPolicy": {
            "mode": "Exact",
            "configurations": [
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 3},
                {"scoreCoordinate": ADD_ON, "weight": 1},
            ],
        },
    },
    "C typical": {
        "numberOfClusters": 10,
        "predicates": [
            {
                "requiredClusterSelector": {
                    "labelSelector": {
                        "matchLabels": {"env": "prod"},
                        "matchExpressions": [{"key": "cloud", "operator": "In", "values": ["Amazon", "Azure"]}],
                    },
                    "claimSelector": {
                        "matchExpressions": [
                            {"key": "platform.open-cluster-management.io", "operator": "In", "values": ["AWS", "GCP"]}
                        ]
                    },
                }
            }
        ],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "prioritizerPolicy": {
            "mode": "Additive",
            "configurations": [
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}, "weight": 1},
                {"scoreCoordinate": ADD_ON, "weight": 1},
            ],
        },
    },
    "D all": {},
    "E expression": {
        "numberOfClusters": 10,
        "predicates": [
            {
                "requiredClusterSelector": {
                    "celSelector": {"celExpressions": ['managedCluster.metadata.labels["env"] == "prod"']}
                }
            }
        ],
    },
}
UPSTREAM_WHOLE = {
    100: (3_766, 4_837, 963, 2_494, 264),
    1_000: (390, 345, 80, 252, 32),
    3_000: (115, 106, 36, 74, 11),
    10_000: (27, 17.5, 9.4, 15, 3.8),
}
"""OCM's decisions per CPU-second by variant, on a similar machine."""


def make_object(kind: str, name: str, namespace: str = "", **rest: Any) -> Object:
    """A typed object, decoded from wire format."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    declared = find_kind(f"{GROUP}/{VERSIONS[kind]}", kind)
    assert declared is not None
    return declared.decode({"metadata": metadata, **rest})


def fleet(size: int) -> list[Object]:
    """Clusters with labels, claims, capacity and some taints; a score for each; decisions of 200 other Placements."""
    rng = random.Random(f"bench-{size}")
    names = [f"cluster-{i:05d}" for i in range(size)]
    things: list[Object] = []
    for number, name in enumerate(names):
        things.append(_cluster(name, number, rng))
        scores = [{"name": which, "value": rng.randint(-100, 100)} for which in ("cpuratio", "memratio")]
        status = {"validUntil": "2099-01-01T00:00:00Z", "scores": scores}
        things.append(make_object("AddOnPlacementScore", "default", name, status=status))
    for number in range(200):
        owner = f"p{number:03d}"
        things.append(decision(owner, f"team{number % 20}", sorted(rng.sample(names, 10))))
    things.append(decision("bench", "ns1", sorted(rng.sample(names, 10))))
    everything = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    things.append(make_object("ManagedClusterSet", "global", spec=everything))
    things.append(make_object("ManagedClusterSetBinding", "global", "ns1", spec={"clusterSet": "global"}))
    return things


def _cluster(name: str, number: int, rng: random.Random) -> Object:
    labels = {
        f"{GROUP}/clusterset": rng.choice(["default", "prod", "edge"]),
        "cloud": rng.choice(["Amazon", "Azure", "Google"]),
        "region": f"r{rng.randint(1, 20)}",
        "env": rng.choice(["prod", "dev"]),
        "vendor": rng.choice(["OpenShift", "EKS", "AKS"]),
        "tier": rng.choice(["gold", "silver", "bronze"]),
    }
    allocatable = {"cpu": str(rng.randint(8, 512)), "memory": f"{rng.randint(16, 4096)}Gi"}
    claims = [
        {"name": "id.k8s.io", "value": f"id-{number}"},
        {"name": "kubeversion.open-cluster-management.io", "value": rng.choice(["v1.30.1", "v1.31.0", "v1.32.2"])},
        {"name": "platform.open-cluster-management.io", "value": rng.choice(["AWS", "GCP"])},
    ]
    available = {
        "type": "ManagedClusterConditionAvailable",
        "status": "True",
        "reason": "ManagedClusterAvailable",
        "message": "Managed cluster is available",
        "lastTransitionTime": "2026-02-01T00:00:00Z",
    }
    spec: dict[str, Any] = {"hubAcceptsClient": True, "leaseDurationSeconds": 60}
    if rng.random() < 0.05:
        key = rng.choice(["gpu", f"{GROUP}/unreachable"])
        spec["taints"] = [{"key": key, "effect": "NoSelect", "timeAdded": "2026-03-01T11:59:00Z"}]
    status = {
        "allocatable": allocatable,
        "capacity": {"cpu": "520", "memory": "4200Gi"},
        "clusterClaims": claims,
        "conditions": [available],
        "version": {"kubernetes": "v1.31.0"},
    }
    return make_object("ManagedCluster", name, metadata={"labels": labels}, spec=spec, status=status)


def decision(owner: str, namespace: str, clusters: list[str]) -> Object:
    labels = {f"{GROUP}/placement": owner, f"{GROUP}/decision-group-index": "0", f"{GROUP}/decision-group-name": ""}
    status = {"decisions": [{"clusterName": name, "reason": ""} for name in clusters]}
    return make_object(
        "PlacementDecision", f"{owner}-decision-1", namespace, metadata={"labels": labels}, status=status
    )


def placement(variant: str, name: str = "bench") -> Object:
    return make_object("Placement", name, "ns1", metadata={"uid": "u"}, spec=VARIANTS[variant])
