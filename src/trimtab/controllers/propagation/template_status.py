"""The status of a template while replicas move: what still serves in a cluster that is being left counts.

During a graceful failover the old copy serves until the new one is ready. A status that ignores the old copy reports an
outage that does not exist, and one that adds it reports more replicas than anybody asked for. So the status is that of
the clusters that stay, plus the ready replicas of those that are left, at most the desired number. It follows the
clusters that stay in everything else, such as `observedGeneration`: a copy that goes does not adopt a new template.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trimtab.api.kinds.work import AggregatedStatusItem, Binding
from trimtab.api.value import Raw
from trimtab.controllers.movement import binding_moves

Aggregate = Callable[[Sequence[Raw]], Raw]
"""Merges the items into the template."""
SERVING_FIELDS = ("readyReplicas", "availableReplicas", "numberReady", "numberAvailable")
"""Fields that count what serves: a replica in a cluster that is being left counts until it is gone."""
COUNT_FIELDS = (*SERVING_FIELDS, "replicas", "updatedReplicas", "currentReplicas")
"""Fields that exceed the desired number while replicas exist in two clusters."""
DAEMON_FIELDS = ("numberReady", "numberAvailable")
MISSING_FIELDS = {"unavailableReplicas": "availableReplicas", "numberUnavailable": "numberAvailable"}
"""Fields that count what is missing, and what they are counted against."""


class Leaving(NamedTuple):
    """Clusters that a binding leaves: completely, or with a part of its replicas."""

    evicted: frozenset[str]
    held: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.evicted or self.held)


def clusters_being_left(binding: Binding) -> Leaving:
    return Leaving(
        frozenset(task.from_cluster for task in binding.spec.graceful_eviction_tasks),
        frozenset(hold.cluster for hold in binding.status.holds),
    )


def aggregate_while_moving(
    binding: Binding,
    items: Sequence[AggregatedStatusItem],
    aggregate: Aggregate,
    *,
    is_ready: Callable[[str], bool],
) -> Raw:
    """The template with its status; what runs in a cluster that is left and not ready is not known."""
    leaving = clusters_being_left(binding)
    staying = [msgspec.to_builtins(item) for item in items if item.cluster_name not in leaving.evicted]
    result = aggregate(staying)
    if not leaving:
        return result
    serving = [
        msgspec.to_builtins(item)
        for item in items
        if item.cluster_name not in leaving.evicted or is_ready(item.cluster_name)
    ]
    total = aggregate(serving) if len(serving) > len(staying) else result
    status = _merge_counts(result.get("status") or {}, total.get("status") or {}, binding)
    return {**result, "status": status}


def _merge_counts(status: Raw, total: Mapping[str, object], binding: Binding) -> Raw:
    """The counts of the clusters that stay and of all, at most the desired number."""
    merged = dict(status)
    replicas = max(binding_moves.desired_replicas(binding), binding.spec.replicas)
    daemon_pods = _count(status, "desiredNumberScheduled") or _count(total, "desiredNumberScheduled")
    for name in COUNT_FIELDS:
        limit = daemon_pods if name in DAEMON_FIELDS else replicas
        if not limit:
            continue  # not a workload with replicas
        own, everywhere = _count(status, name), _count(total, name)
        value = min(limit, everywhere if name in SERVING_FIELDS else own)
        if value or name in status:
            merged[name] = value
    for name, served in MISSING_FIELDS.items():
        if name in merged:
            desired = daemon_pods if served in DAEMON_FIELDS else replicas
            missing = min(_count(status, name), max(0, desired - _count(merged, served)))
            merged = {**merged, name: missing} if missing else {k: v for k, v in merged.items() if k != name}
    return merged


def _count(status: Mapping[str, object], name: str) -> int:
    value = status.get(name)
    return value if isinstance(value, int) else 0
