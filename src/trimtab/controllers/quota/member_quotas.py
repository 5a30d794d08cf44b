"""ResourceQuotas of members: they are watched where they limit placements, and say what they leave free.

A quota counts when it limits requests of cpu or memory, or pods, and has no scopes or selects the priority class of the
replica. The quotas of a cluster that this process does not serve, or has not read yet, limit nothing.
"""

from collections.abc import Iterator

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding
from trimtab.api.paths import object_at, objects_at, strings_in
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw
from trimtab.controllers.clusters.served import is_served
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Effect, FollowKind, NotFetched, View, controller
from trimtab.controllers.settings import setting
from trimtab.decide.request import ClassSelector, QuotaRoom

API_VERSION, KIND = "v1", "ResourceQuota"
REQUESTS = "requests."


def became_ready(old: Cluster | None, new: Cluster) -> bool:
    return is_ready(new) and (old is None or not is_ready(old))


def is_ready(cluster: Cluster) -> bool:
    return is_condition_true(cluster.status.conditions, "Ready")


@controller(Cluster, writes=[], predicate=became_ready)
def member_quotas(cluster: Cluster, view: View) -> Iterator[Effect]:
    """Follow the quotas of a cluster as soon as it can be read."""
    if not setting(view, "quota-estimate") or setting(view, "agent") or not is_served(cluster, view):
        return
    if is_ready(cluster) and isinstance(view.member_all(cluster.name, API_VERSION, KIND), NotFetched):
        yield FollowKind(cluster.name, API_VERSION, KIND)


def quota_room(binding: Binding, view: View) -> tuple[QuotaRoom, ...]:
    """What the quotas of the namespace of a binding leave free in clusters."""
    if not setting(view, "quota-estimate"):
        return ()
    needs = binding.spec.replica_requirements
    namespace = binding.spec.resource.namespace if binding.spec.components else needs.namespace if needs else ""
    if not namespace:
        return ()
    found = []
    for cluster in view.all(Cluster):
        listed = view.member_all(cluster.name, API_VERSION, KIND)
        if not isinstance(listed, NotFetched):
            quotas = (raw for raw in listed if raw["metadata"].get("namespace") == namespace)
            found += [room for raw in quotas if (room := room_of(raw, cluster.name)) is not None]
    return tuple(found)


def room_of(quota: Raw, cluster: str) -> QuotaRoom | None:
    """What a quota leaves free; None when it limits nothing that is known before a pod exists."""
    if strings_in(object_at(quota, "spec").get("scopes")):
        return None
    expressions = list(objects_at(quota, "spec", "scopeSelector", "matchExpressions"))
    if any(one.get("scopeName") != "PriorityClass" for one in expressions):
        return None
    hard = object_at(quota, "status", "hard") or object_at(quota, "spec", "hard")
    used = object_at(quota, "status", "used")
    free = []
    for resource, limit in hard.items():
        name = resource.removeprefix(REQUESTS)
        if resource.startswith(REQUESTS) or name in ("cpu", "memory", "pods"):
            amount = parse_quantity(limit) - parse_quantity(used.get(resource, 0))
            free.append((name, amount * 1000 if name == "cpu" else amount))
    selectors = tuple(
        ClassSelector(str(one.get("operator")), tuple(strings_in(one.get("values")))) for one in expressions
    )
    return QuotaRoom(cluster, tuple(free), selectors) if free else None
