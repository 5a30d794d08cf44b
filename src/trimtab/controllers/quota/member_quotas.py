"""ResourceQuotas of members: they are watched where they limit placements, and say how many further replicas fit.

A quota counts when it limits requests of cpu or memory, or pods, and has no scopes or selects the priority class of the
replica. The quotas of a cluster that this process does not serve, or has not read yet, limit nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding
from trimtab.api.paths import object_at, objects_at, strings_in
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw
from trimtab.controllers.clusters.served import is_served
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Effect, FollowKind, NotFetched, View, controller
from trimtab.controllers.settings import setting

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


def further_replicas(binding: Binding, view: View) -> tuple[tuple[str, int], ...]:
    """How many further replicas of a binding the quotas of its namespace allow, by cluster."""
    needs = binding.spec.replica_requirements
    if needs is None or not needs.namespace or not setting(view, "quota-estimate"):
        return ()
    found = []
    for cluster in view.all(Cluster):
        listed = view.member_all(cluster.name, API_VERSION, KIND)
        if isinstance(listed, NotFetched):
            continue
        quotas = [raw for raw in listed if raw["metadata"].get("namespace") == needs.namespace]
        if (most := most_replicas(quotas, needs.resource_request, needs.priority_class_name)) is not None:
            found.append((cluster.name, most))
    return tuple(found)


def most_replicas(quotas: Iterable[Raw], request: Mapping[str, object], priority_class: str) -> int | None:
    """The replicas that fit into all of these quotas; None when none of them limits the replica."""
    limits = []
    for quota in quotas:
        if not applies(quota, priority_class):
            continue
        hard = object_at(quota, "status", "hard") or object_at(quota, "spec", "hard")
        used = object_at(quota, "status", "used")
        for resource, limit in hard.items():
            name = resource.removeprefix(REQUESTS)
            amount = parse_quantity(str(request.get(name, 0))) if name != "pods" else parse_quantity(1)
            if amount > 0 and (resource.startswith(REQUESTS) or name in ("cpu", "memory", "pods")):
                free = parse_quantity(limit) - parse_quantity(used.get(resource, 0))
                limits.append(max(0, int(free // amount)))
    return min(limits) if limits else None


def applies(quota: Raw, priority_class: str) -> bool:
    """Whether a quota limits pods of this priority class; one with other scopes is not counted."""
    scopes: Sequence[str] = strings_in(object_at(quota, "spec").get("scopes"))
    expressions = list(objects_at(quota, "spec", "scopeSelector", "matchExpressions"))
    if not scopes and not expressions:
        return True
    if scopes or any(one.get("scopeName") != "PriorityClass" for one in expressions):
        return False
    return all(matches(one, priority_class) for one in expressions)


def matches(expression: Raw, priority_class: str) -> bool:
    values = strings_in(expression.get("values"))
    return {
        "In": priority_class in values,
        "NotIn": priority_class not in values,
        "Exists": bool(priority_class),
        "DoesNotExist": not priority_class,
    }.get(str(expression.get("operator")), False)
