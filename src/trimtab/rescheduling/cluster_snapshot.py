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
from trimtab.decide.pods.budgets.scalable_kinds import Scalable, is_users_own, scalables
from trimtab.decide.pods.fit.requests import Amounts, amounts
from trimtab.decide.pods.metrics.measurements import Measures
from trimtab.decide.pods.preemption.recent_disruptions import EVICTED
from trimtab.decide.rescheduling.snapshot import Facts, Owner
from trimtab.errors import Forbidden, NotFound, Unavailable

T = TypeVar("T", bound=Object)


async def look(client: Client, *, stock: bool) -> Facts:
    """The current objects; `is_stock` means that kube-scheduler and a kube-apiserver run here, not ours."""
    ours = await _at_hand(client, DisruptionBudget)
    sets: list[ReplicaSet | StatefulSet] = [*await _all(client, ReplicaSet), *await _all(client, StatefulSet)]
    pods = await _all(client, Pod)
    return Facts(
        nodes=await _all(client, Node),
        pods=pods,
        deployments=await _all(client, Deployment),
        sets=sets,
        budgets=[*await _all(client, PodDisruptionBudget), *(ours or [])],
        policy=next((one for one in await _at_hand(client, DisruptionPolicy) or () if one.name == "default"), None),
        namespaces={one.name: one.metadata.labels for one in await _all(client, Namespace)},
        services=_selectors(await _all(client, Service)),
        storage_classes={
            (one.metadata.namespace, one.name): one.spec.storage_class_name
            for one in await _all(client, PersistentVolumeClaim)
            if one.spec.storage_class_name is not None
        },
        priorities={one.name: one.value for one in await _all(client, PriorityClass)},
        others=[*await _old_owners(client), *await _own_kinds(client, [*pods, *sets])],
        spreads_by_default=stock,
        avoidance=not stock,
        overlap_refused=ours is None,
        ends={} if stock else await _ends(client),
        measures=await measured(client),
    )


async def _old_owners(client: Client) -> list[Owner]:
    found = await _at_hand(client, ReplicationController) or ()
    return [
        Owner(
            one.metadata.uid,
            f"ReplicationController/{one.name}",
            1 if one.spec.replicas is None else one.spec.replicas,
            rolling=one.status.observed_generation < one.metadata.generation,
        )
        for one in found
    ]


async def _own_kinds(client: Client, owned: Iterable[Object]) -> list[Owner]:
    """Owners of custom kinds with a scale subresource; not listed when no pod has such an owner."""
    refs = (ref for one in owned for ref in one.metadata.owner_references if ref.controller)
    custom_kinds = {_kind_of(ref) for ref in refs if is_users_own(ref)}
    if not custom_kinds:
        return []
    try:
        definitions = (await client.list(resource_of(kind_of(CustomResourceDefinition)))).items
        kinds = [one for one in scalables(definitions) if (one.group, one.kind) in custom_kinds]
        return [owner for kind in kinds for owner in await _owners_of(client, kind)]
    except (NotFound, Forbidden):
        return []  # without permission the number of replicas is unknown: they count as one


def _kind_of(ref: OwnerReference) -> tuple[str, str]:
    return ref.api_version.partition("/")[0], ref.kind


async def _owners_of(client: Client, kind: Scalable) -> list[Owner]:
    resource = Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)
    return [_owner(kind, raw) for raw in (await client.list(resource)).items]


def _owner(kind: Scalable, raw: Raw) -> Owner:
    metadata, seen = raw["metadata"], (raw.get("status") or {}).get("observedGeneration")
    behind = isinstance(seen, int) and seen < metadata.get(
        "generation", 0
    )  # without observedGeneration the status counts as current
    return Owner(metadata["uid"], f"{kind.kind}/{metadata['name']}", kind.replicas(raw) or 1, rolling=behind)


async def _ends(client: Client) -> dict[str, dict[str, datetime]]:
    """Evictions of the last hour, whatever caused them: our API server records an event on the pod's owner for each."""
    found: dict[str, dict[str, datetime]] = {}
    kind = kind_of(Event)
    for raw in (await client.list(resource_of(kind), fields=f"reason={EVICTED}")).items:
        one = cast("Event", kind.decode(raw))
        at = one.last_timestamp or one.metadata.creation_timestamp
        if at is not None and one.related is not None:
            found.setdefault(one.involved_object.uid, {})[one.related.uid] = at
    return found


async def measured(client: Client) -> Measures | None:
    """The metrics of metrics.k8s.io; None where it is not served or not allowed."""
    try:
        nodes, pods = await _known(client, NodeMetrics), await _known(client, PodMetrics)
    except (Unavailable, Forbidden):
        return None
    if nodes is None or pods is None:
        return None
    return Measures(
        {one.name: amounts(one.usage) for one in nodes},
        {(one.metadata.namespace, one.name): _together(amounts(part.usage) for part in one.containers) for one in pods},
    )


def _together(parts: Iterable[Amounts]) -> Amounts:
    found: dict[str, int] = {}
    for part in parts:
        for what, amount in part.items():
            found[what] = found.get(what, 0) + amount
    return found


def _selectors(services: list[Service]) -> Mapping[str, Mapping[str, Labels]]:
    found: dict[str, dict[str, Labels]] = {}
    for one in services:
        found.setdefault(one.metadata.namespace, {})[one.name] = one.spec.selector
    return found


async def _all(client: Client, type_: type[T]) -> list[T]:
    return await _known(client, type_) or []


async def _at_hand(client: Client, type_: type[T]) -> list[T] | None:
    """The same for optional kinds: restricted users get Forbidden even where the kind does not exist."""
    try:
        return await _known(client, type_)
    except Forbidden:
        return None


async def _known(client: Client, type_: type[T]) -> list[T] | None:
    """All objects of a kind; None where the cluster does not serve it."""
    kind = kind_of(type_)
    try:
        listing = await client.list(resource_of(kind))
    except NotFound:
        return None
    return [cast("T", kind.decode(raw)) for raw in listing.items]
