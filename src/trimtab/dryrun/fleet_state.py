"""The state of a fleet as values: what plans and forecasts read instead of a live API server."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self, TypeVar, cast

from trimtab.api.kind import find_kind, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy, Move
from trimtab.api.kinds.interpreter import ResourceInterpreterCustomization
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement, PlacementDecision
from trimtab.api.kinds.override_policy import ClusterOverridePolicy, OverridePolicy
from trimtab.api.kinds.policy import ClusterPropagationPolicy, Policy, PropagationPolicy
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import TRIMTAB, Profile
from trimtab.api.value import Object, Raw
from trimtab.client.client import Client, Resource
from trimtab.client.lookups import list_typed
from trimtab.dryrun.documents import Document
from trimtab.dryrun.manifest import Manifest
from trimtab.dryrun.static_view import StaticView

T = TypeVar("T", bound=Object)
Name = tuple[str, str]
"""Namespace and name."""
KINDS: tuple[type[Object], ...] = (
    Cluster,
    ResourceBinding,
    ClusterResourceBinding,
    PropagationPolicy,
    ClusterPropagationPolicy,
    OverridePolicy,
    ClusterOverridePolicy,
    DisruptionBudget,
    DisruptionPolicy,
    Move,
    FederatedResourceQuota,
    WorkloadRebalancer,
    PriorityClass,
    ResourceInterpreterCustomization,
    OcmPlacement,
    PlacementDecision,
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
)
"""The kinds that decisions read; templates of every kind are kept beside them in their wire form."""


class FleetState(NamedTuple):
    """All objects that decisions depend on, at one time. A change is a new state that shares what stays the same."""

    objects: Mapping[type[Object], Mapping[Name, Object]]
    templates: Mapping[tuple[str, str], Mapping[Name, Raw]]
    """Templates by apiVersion and kind."""
    now: datetime
    profile: Profile = TRIMTAB
    settings: Mapping[str, Any] = {}

    @classmethod
    def of(
        cls,
        objects: Iterable[Object],
        templates: Iterable[Raw],
        now: datetime,
        profile: Profile = TRIMTAB,
        settings: Mapping[str, Any] | None = None,
    ) -> Self:
        return cls({}, {}, now, profile, settings or {}).with_objects(objects).with_templates(templates)

    def with_objects(self, objects: Iterable[Object]) -> Self:
        """The state in which these objects are added, or replace those of the same name."""
        found = dict(self.objects)
        fresh: dict[type[Object], dict[Name, Object]] = {}
        for thing in objects:
            fresh.setdefault(type(thing), {})[thing.namespace, thing.name] = thing
        for type_, changed in fresh.items():
            found[type_] = {**found.get(type_, {}), **changed}
        return self._replace(objects=found)

    def without(self, type_: type[Object]) -> Self:
        return self._replace(objects={kept: things for kept, things in self.objects.items() if kept is not type_})

    def with_templates(self, templates: Iterable[Raw]) -> Self:
        found = {gvk: dict(raws) for gvk, raws in self.templates.items()}
        for raw in templates:
            found.setdefault((raw["apiVersion"], raw["kind"]), {})[name_of(raw)] = raw
        return self._replace(templates=found)

    def all(self, type_: type[T]) -> list[T]:
        found = self.objects.get(type_, {})
        return [cast("T", found[name]) for name in sorted(found)]

    def get(self, type_: type[T], namespace: str, name: str) -> T | None:
        return cast("T | None", self.objects.get(type_, {}).get((namespace, name)))

    @property
    def bindings(self) -> list[Binding]:
        return [*self.all(ResourceBinding), *self.all(ClusterResourceBinding)]

    def view(self) -> StaticView:
        """The View that controllers get of this state."""
        customizations = [
            kind_of(ResourceInterpreterCustomization).encode(found)
            for found in self.all(ResourceInterpreterCustomization)
        ]
        raws = [raw for found in self.templates.values() for raw in found.values()]
        return StaticView(
            [Manifest(raw, Document(raw, "", 0), None) for raw in raws],
            now=self.now,
            profile=self.profile,
            customizations=customizations,
            more=[thing for found in self.objects.values() for thing in found.values()],
            settings=self.settings,
        )


def name_of(raw: Raw) -> Name:
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def fetch_fleet_state(
    client: Client,
    now: datetime,
    profile: Profile = TRIMTAB,
    *,
    changed_templates: Sequence[Raw] = (),
    policies: Sequence[Policy] = (),
) -> FleetState:
    """Today's state: all objects that decisions read, the templates of all bindings, and those that change."""
    objects: list[Object] = []
    for type_ in KINDS:
        objects += await list_typed(client, type_, if_served=True)
    wanted = {(b.spec.resource.api_version, b.spec.resource.kind) for b in objects if isinstance(b, Binding)}
    wanted |= {(raw["apiVersion"], raw["kind"]) for raw in changed_templates}
    for policy in [*policies, *(found for found in objects if isinstance(found, Policy))]:
        wanted |= {(selector.api_version, selector.kind) for selector in policy.spec.resource_selectors}
    templates: list[Raw] = []
    for resource in await client.resources():
        if (resource.api_version, resource.kind) in wanted and not is_own_kind(resource):
            templates += await list_objects(client, resource)
    return FleetState.of(objects, templates, now, profile)


def is_own_kind(resource: Resource) -> bool:
    kind = find_kind(resource.api_version, resource.kind)
    return kind is not None and kind.type in KINDS


async def list_objects(client: Client, resource: Resource) -> list[Raw]:
    """All objects of a kind with apiVersion and kind, which items of a list response do not have."""
    type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**type_meta, **raw} for raw in (await client.list(resource)).items]
