"""Reads the objects that one round of the rescheduler needs, through any API server."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.event import Event
from trimtab.api.kinds.native.extension import CustomResourceDefinition
from trimtab.api.kinds.native.metrics import NodeMetrics, PodMetrics
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.network import Service
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Object, OwnerReference, Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.budgets.scalable_kinds import ScalableKind, is_custom_kind, scalable_kinds_of
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.preemption.recent_disruptions import POD_EVICTED_REASON
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects, PodOwner
from trimtab.errors import Forbidden, NotFound, Unavailable

T = TypeVar("T", bound=Object)


async def read_cluster_objects(client: Client, *, is_stock: bool) -> ClusterObjects:
    """The current objects; `is_stock` means that kube-scheduler and a kube-apiserver run here, not ours."""
    ours = await _list_if_allowed(client, DisruptionBudget)
    sets: list[ReplicaSet | StatefulSet] = [
        *await _list_or_empty(client, ReplicaSet),
        *await _list_or_empty(client, StatefulSet),
    ]
    pods = await _list_or_empty(client, Pod)
    return ClusterObjects(
        nodes=await _list_or_empty(client, Node),
        pods=pods,
        deployments=await _list_or_empty(client, Deployment),
        sets=sets,
        budgets=[*await _list_or_empty(client, PodDisruptionBudget), *(ours or [])],
        policy=next(
            (one for one in await _list_if_allowed(client, DisruptionPolicy) or () if one.name == "default"), None
        ),
        namespaces={one.name: one.metadata.labels for one in await _list_or_empty(client, Namespace)},
        services=_service_selectors(await _list_or_empty(client, Service)),
        storage_classes={
            (one.metadata.namespace, one.name): one.spec.storage_class_name
            for one in await _list_or_empty(client, PersistentVolumeClaim)
            if one.spec.storage_class_name is not None
        },
        priorities={one.name: one.value for one in await _list_or_empty(client, PriorityClass)},
        other_owners=[*await _replication_controllers(client), *await _custom_owners(client, [*pods, *sets])],
        spreads_by_default=is_stock,
        honours_avoid_lists=not is_stock,
        rejects_overlap=ours is None,
        recent_evictions={} if is_stock else await _recent_evictions(client),
        measures=await read_metrics(client),
    )


async def _replication_controllers(client: Client) -> list[PodOwner]:
    found = await _list_if_allowed(client, ReplicationController) or ()
    return [
        PodOwner(
            one.metadata.uid,
            f"ReplicationController/{one.name}",
            1 if one.spec.replicas is None else one.spec.replicas,
            is_rolling_out=one.status.observed_generation < one.metadata.generation,
        )
        for one in found
    ]


async def _custom_owners(client: Client, owned: Iterable[Object]) -> list[PodOwner]:
    """Owners of custom kinds with a scale subresource; not listed when no pod has such an owner."""
    refs = (ref for one in owned for ref in one.metadata.owner_references if ref.controller)
    custom_kinds = {_group_and_kind(ref) for ref in refs if is_custom_kind(ref)}
    if not custom_kinds:
        return []
    try:
        definitions = (await client.list(resource_of(kind_of(CustomResourceDefinition)))).items
        kinds = [one for one in scalable_kinds_of(definitions) if (one.group, one.kind) in custom_kinds]
        return [owner for kind in kinds for owner in await _owners_of(client, kind)]
    except (NotFound, Forbidden):
        return []  # without permission the number of replicas is unknown: they count as one


def _group_and_kind(ref: OwnerReference) -> tuple[str, str]:
    return ref.api_version.partition("/")[0], ref.kind


async def _owners_of(client: Client, kind: ScalableKind) -> list[PodOwner]:
    resource = Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)
    return [_owner(kind, raw) for raw in (await client.list(resource)).items]


def _owner(kind: ScalableKind, raw: Raw) -> PodOwner:
    metadata, seen = raw["metadata"], (raw.get("status") or {}).get("observedGeneration")
    behind = isinstance(seen, int) and seen < metadata.get(
        "generation", 0
    )  # without observedGeneration the status counts as current
    return PodOwner(metadata["uid"], f"{kind.kind}/{metadata['name']}", kind.replicas(raw) or 1, is_rolling_out=behind)


async def _recent_evictions(client: Client) -> dict[str, dict[str, datetime]]:
    """Evictions of the last hour, whatever caused them: our API server records an event on the pod's owner for each."""
    found: dict[str, dict[str, datetime]] = {}
    kind = kind_of(Event)
    for raw in (await client.list(resource_of(kind), fields=f"reason={POD_EVICTED_REASON}")).items:
        one = cast("Event", kind.decode(raw))
        at = one.last_timestamp or one.metadata.creation_timestamp
        if at is not None and one.related is not None:
            found.setdefault(one.involved_object.uid, {})[one.related.uid] = at
    return found


async def read_metrics(client: Client) -> UsageMetrics | None:
    """The metrics of metrics.k8s.io; None where it is not served or not allowed."""
    try:
        nodes, pods = await _list_if_served(client, NodeMetrics), await _list_if_served(client, PodMetrics)
    except (Unavailable, Forbidden):
        return None
    if nodes is None or pods is None:
        return None
    return UsageMetrics(
        {one.name: parse_amounts(one.usage) for one in nodes},
        {
            (one.metadata.namespace, one.name): _sum_amounts(parse_amounts(part.usage) for part in one.containers)
            for one in pods
        },
    )


def _sum_amounts(parts: Iterable[Amounts]) -> Amounts:
    found: dict[str, int] = {}
    for part in parts:
        for what, amount in part.items():
            found[what] = found.get(what, 0) + amount
    return found


def _service_selectors(services: list[Service]) -> Mapping[str, Mapping[str, Labels]]:
    found: dict[str, dict[str, Labels]] = {}
    for one in services:
        found.setdefault(one.metadata.namespace, {})[one.name] = one.spec.selector
    return found


async def _list_or_empty(client: Client, type_: type[T]) -> list[T]:
    return await _list_if_served(client, type_) or []


async def _list_if_allowed(client: Client, type_: type[T]) -> list[T] | None:
    """The same for optional kinds: restricted users get Forbidden even where the kind does not exist."""
    try:
        return await _list_if_served(client, type_)
    except Forbidden:
        return None


async def _list_if_served(client: Client, type_: type[T]) -> list[T] | None:
    """All objects of a kind; None where the cluster does not serve it."""
    kind = kind_of(type_)
    try:
        listing = await client.list(resource_of(kind))
    except NotFound:
        return None
    return [cast("T", kind.decode(raw)) for raw in listing.items]
