"""The order in which the controllers start and are notified of a change.

When one change concerns two controllers, the first in this order writes first. The recorded flows and writes depend on
it, so it is fixed here and does not follow from the names. A controller that is not listed comes last.
"""

from collections.abc import Iterable

from trimtab.controllers.contract import Controller

START_ORDER = (
    "aggregate",
    "budget",
    "clusterset",
    "clusterset_binding",
    "orphan_works",
    "customizations",
    "dependencies",
    "unschedulable_replicas",
    "detect",
    "dispatch",
    "graceful_eviction",
    "execute",
    "failback",
    "failover",
    "health",
    "replacement_hold",
    "webhook_defaults",
    "move_log",
    "taint_eviction",
    "manifestwork",
    "managed_cluster_sync",
    "namespaces",
    "placement",
    "policy_claims",
    "rebalance",
    "manifestwork_replicaset",
    "score_moves",
    "schedule",
    "taint_policies",
)
_POSITIONS = {name: position for position, name in enumerate(START_ORDER)}


def in_start_order(controllers: Iterable[Controller]) -> list[Controller]:
    return sorted(controllers, key=lambda one: (_POSITIONS.get(one.name, len(START_ORDER)), one.name))
