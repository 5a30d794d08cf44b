"""Looks at one cluster through any API server, and gathers what one round of the rescheduler must know."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.metrics import NodeMetrics, PodMetrics
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.network import Service
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Object
from trimtab.client.client import Client, resource_of
from trimtab.decide.pods.demand import amounts
from trimtab.decide.pods.terms import Labels
from trimtab.decide.reschedule.picture import Facts, Measures
from trimtab.errors import Forbidden, NotFound, Unavailable

T = TypeVar("T", bound=Object)


async def look(client: Client, *, stock: bool) -> Facts:
    """What is there now; `stock` says that kube-scheduler and a kube-apiserver decide here, not ours."""
    ours = await _known(client, DisruptionBudget)
    sets = [*await _all(client, ReplicaSet), *await _all(client, StatefulSet)]
    return Facts(
        nodes=await _all(client, Node),
        pods=await _all(client, Pod),
        deployments=await _all(client, Deployment),
        sets=cast("Any", sets),
        budgets=[*await _all(client, PodDisruptionBudget), *(ours or [])],
        namespaces={one.name: one.metadata.labels for one in await _all(client, Namespace)},
        services=_selectors(await _all(client, Service)),
        storage_classes={
            (one.metadata.namespace, one.name): one.spec.storage_class_name
            for one in await _all(client, PersistentVolumeClaim)
            if one.spec.storage_class_name is not None
        },
        priorities={one.name: one.value for one in await _all(client, PriorityClass)},
        spreads_by_default=stock,
        overlap_refused=ours is None,
        measures=await _measured(client),
    )


async def _measured(client: Client) -> Measures | None:
    """What metrics.k8s.io tells; None where nobody serves it to us."""
    try:
        nodes, pods = await _known(client, NodeMetrics), await _known(client, PodMetrics)
    except (Unavailable, Forbidden):
        return None
    if nodes is None or pods is None:
        return None
    return Measures(
        {one.name: amounts(one.usage).get("cpu", 0) for one in nodes},
        {
            (one.metadata.namespace, one.name): sum(amounts(part.usage).get("cpu", 0) for part in one.containers)
            for one in pods
        },
    )


def _selectors(services: list[Service]) -> Mapping[str, Mapping[str, Labels]]:
    found: dict[str, dict[str, Labels]] = {}
    for one in services:
        found.setdefault(one.metadata.namespace, {})[one.name] = one.spec.selector
    return found


async def _all(client: Client, type_: type[T]) -> list[T]:
    return await _known(client, type_) or []


async def _known(client: Client, type_: type[T]) -> list[T] | None:
    """All objects of a kind; None where the cluster does not know it."""
    kind = kind_of(type_)
    try:
        listing = await client.list(resource_of(kind))
    except NotFound:
        return None
    return [cast("T", kind.decode(raw)) for raw in listing.items]
