"""The order of Karmada's struct fields: its validation errors quote values in that order."""

from typing import Any

_ORDER = [
    "affinityName",
    "clusterAffinity",
    "clusterAffinities",
    "labelSelector",
    "fieldSelector",
    "clusterNames",
    "exclude",
    "overflowAffinities",
    "clusterTolerations",
    "spreadConstraints",
    "replicaScheduling",
    "workloadAffinity",
    "matchLabels",
    "matchExpressions",
    "spreadByField",
    "spreadByLabel",
    "maxGroups",
    "minGroups",
    "replicaSchedulingType",
    "replicaDivisionPreference",
    "weightPreference",
    "staticWeightList",
    "dynamicWeight",
    "targetCluster",
    "weight",
    "affinity",
    "antiAffinity",
    "dispatching",
    "dispatchingOnClusters",
    "key",
    "operator",
    "value",
    "values",
    "effect",
    "tolerationSeconds",
]
_RANKS = {key: rank for rank, key in enumerate(_ORDER)}


def in_declared_order(value: Any) -> Any:
    """The value with its fields in the order of Karmada's Go structs and without empty ones."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (_RANKS.get(key, len(_RANKS)), key))
        return {key: in_declared_order(value[key]) for key in keys if value[key] not in (None, [], "")}
    return [in_declared_order(item) for item in value] if isinstance(value, list) else value
