"""Small steps through raw objects, forgiving about shape: the schema complains about that."""

from collections.abc import Callable, Iterator
from typing import Any

from trimtab.api.value import Raw


def mapping(value: Any) -> Raw:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def at(value: Any, *path: str) -> Any:
    """What stands at a path of keys; None when there is nothing."""
    for key in path:
        value = mapping(value).get(key)
    return value


def objects(value: Any) -> Iterator[tuple[int, Raw]]:
    """The objects of a list, with their index."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            if isinstance(item, dict):
                yield i, item


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


def in_order(value: Any) -> Any:
    """The value with its members as Karmada declares them: its complaints quote them in that order."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (_RANKS.get(key, len(_RANKS)), key))
        return {key: in_order(value[key]) for key in keys if value[key] not in (None, [], "")}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def number(value: Any) -> int:
    """A whole number; 0 for anything else, as Go's zero value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def put(obj: Raw, path: tuple[str, ...], value: Any) -> Raw:
    """A copy of the object with a value at a path; objects on the way are made."""
    head, *rest = path
    return {**obj, head: put(mapping(obj.get(head)), tuple(rest), value) if rest else value}


def change_items(obj: Raw, path: tuple[str, ...], change: Callable[[Raw], Raw]) -> Raw:
    """The object with every object of the list at `path` changed; the very same when none was."""
    items = at(obj, *path)
    if not isinstance(items, list):
        return obj
    changed = [change(item) if isinstance(item, dict) else item for item in items]
    return obj if all(a is b for a, b in zip(changed, items, strict=True)) else put(obj, path, changed)
