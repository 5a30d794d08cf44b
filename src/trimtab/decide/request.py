"""The placement request of one binding: everything a decision about clusters depends on."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np

from trimtab.api.kinds.policy import (
    ClusterAffinityTerm,
    Placement,
    PrioritizerConfig,
    ReplicaSchedulingStrategy,
    ScoreCoordinate,
    SpreadConstraint,
    StaticClusterWeight,
)
from trimtab.api.kinds.work import Binding, Component, NodeClaim, WorkloadAffinityGroups
from trimtab.api.lazy import lazily
from trimtab.api.quantity import int_value, milli_value
from trimtab.decide.fleet import Array
from trimtab.decide.framework import hashable_key
from trimtab.decide.region_selection import RegionRequirement

DUPLICATED, STATIC, DYNAMIC, AGGREGATED, BY_SCORE = "Duplicated", "StaticWeight", "DynamicWeight", "Aggregated", "Score"
_DEFAULT_BLOCK_SECONDS = 600
_MAX_PARSED_PLACEMENTS = 8192
_NO_GROUPS = WorkloadAffinityGroups()


class FeatureGates(NamedTuple):
    """Scheduler feature gates; off by default, as in Karmada."""

    components: bool = False
    """MultiplePodTemplatesScheduling."""
    workload_affinity: bool = False
    overcommit_protection: bool = False
    """SchedulingOvercommitProtection."""
    empty_workloads: bool = False
    """Clusters that were selected but get no replicas still get the object."""
    disabled_plugins: frozenset[str] = frozenset()
    """Disabled plugins."""


DEFAULT_FEATURE_GATES = FeatureGates()


class Prioritizer(NamedTuple):
    """One score that ranks clusters before any other rule, and its weight."""

    coordinate: ScoreCoordinate
    weight: int

    @property
    def plugin(self) -> str:
        return "AddOn" if self.coordinate.type == "AddOn" else self.coordinate.built_in

    @property
    def title(self) -> str:
        """Its name in explanations."""
        if self.coordinate.type != "AddOn" or self.coordinate.add_on is None:
            return self.plugin
        return f"AddOn/{self.coordinate.add_on.resource_name}/{self.coordinate.add_on.score_name}"


class ParsedPlacement:
    """A placement, parsed once for all bindings that share it."""

    __slots__ = (
        "cluster_spread",
        "groups",
        "ignores_spread",
        "prioritizers",
        "region_requirement",
        "region_spread",
        "single_cluster",
        "spec",
        "spread_fields",
        "static_weights",
        "strategy",
    )

    def __init__(self, placement: Placement) -> None:
        self.spec = placement
        self.groups: tuple[ClusterAffinityTerm, ...] = placement.cluster_affinities
        self.strategy = _strategy(placement.replica_scheduling)
        """Empty when it is not supported."""
        self.ignores_spread = _ignores_spread(placement.replica_scheduling)
        by_field: dict[str, SpreadConstraint] = {c.spread_by_field: c for c in placement.spread_constraints}
        self.region_spread = by_field.get("region")
        self.cluster_spread = by_field.get("cluster")
        self.region_requirement = _region_requirement(self.region_spread, self.cluster_spread)
        self.spread_fields = tuple(c.spread_by_field for c in placement.spread_constraints)
        self.single_cluster = any(
            c.spread_by_field == "cluster" and c.min_groups == c.max_groups == 1 for c in placement.spread_constraints
        )
        self.static_weights = _static_weights(placement.replica_scheduling)
        """None: no preference was given, so every cluster has weight 1."""
        self.prioritizers = _prioritizers(placement)


def _region_requirement(region: SpreadConstraint | None, cluster: SpreadConstraint | None) -> RegionRequirement | None:
    if region is None:
        return None
    return RegionRequirement(region.min_groups, region.max_groups, cluster.min_groups if cluster is not None else 0)


def _strategy(scheduling: ReplicaSchedulingStrategy | None) -> str:
    if scheduling is None or scheduling.replica_scheduling_type == "Duplicated":
        return DUPLICATED
    if scheduling.replica_scheduling_type != "Divided":
        return ""
    if scheduling.replica_division_preference == "Aggregated":
        return AGGREGATED
    if scheduling.replica_division_preference != "Weighted":
        return ""
    dynamic = scheduling.weight_preference.dynamic_weight if scheduling.weight_preference is not None else ""
    return {"": STATIC, "Score": BY_SCORE}.get(dynamic, DYNAMIC)


def _ignores_spread(scheduling: ReplicaSchedulingStrategy | None) -> bool:
    """Static weights alone select the clusters; an empty preference is not a list of weights."""
    if _strategy(scheduling) != STATIC or scheduling is None:
        return False
    return scheduling.weight_preference is None or bool(scheduling.weight_preference.static_weight_list)


def _static_weights(scheduling: ReplicaSchedulingStrategy | None) -> tuple[StaticClusterWeight, ...] | None:
    if scheduling is None or scheduling.weight_preference is None:
        return None
    return scheduling.weight_preference.static_weight_list


def _prioritizers(placement: Placement) -> tuple[Prioritizer, ...]:
    policy = placement.prioritizer_policy
    if policy is None:
        return ()
    defaults = {"Balance": 1, "Steady": 1} if policy.mode in ("", "Additive") else {}
    built_in = {name: Prioritizer(ScoreCoordinate(type="BuiltIn", built_in=name), w) for name, w in defaults.items()}
    given = [_prioritizer(config) for config in policy.configurations if config.score_coordinate is not None]
    built_in.update({p.plugin: p for p in given if p.coordinate.type != "AddOn"})
    return tuple(p for p in (*built_in.values(), *(p for p in given if p.coordinate.type == "AddOn")) if p.weight)


def _prioritizer(config: PrioritizerConfig) -> Prioritizer:
    weight = 1 if config.weight is None else config.weight
    return Prioritizer(config.score_coordinate or ScoreCoordinate(), weight)


class ScoreQuery(NamedTuple):
    """What a prioritizer receives: which score, and where the workload is placed."""

    coordinate: ScoreCoordinate
    placed: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    """Which of the counted decisions are the requester's own, per cluster."""
    decision_counts: "DecisionCounts | None" = None
    """None: nothing has been decided yet."""


class DecisionCounts:
    """How often each target was selected, by any request. Two with the same identity have the same counts."""

    def __init__(self, counts: Array, outside_fleet: Mapping[str, int]) -> None:
        self.counts = counts
        """By column of the fleet."""
        self.outside_fleet = outside_fleet
        """Selected targets that are not in the fleet: they, too, may have the highest count."""

    @lazily
    def highest(self) -> int:
        """The highest count in the fleet."""
        return int(self.counts.max(initial=0))

    @lazily
    def _columns_with_highest(self) -> int:
        """How many columns have the highest count."""
        return int(np.count_nonzero(self.counts == self.highest))

    def highest_without(
        self, columns: list[int] | Array, selected: list[int] | Array, times: Array | int, decided: Sequence[str]
    ) -> int:
        """The highest count without the requester's own decisions: their columns, the counts there, how many are its own,
        and the names of all.
        """
        highest = self.highest
        held = selected.count(highest) if isinstance(selected, list) else np.count_nonzero(selected == highest)
        if held == self._columns_with_highest:
            counts = self.counts.copy()
            counts[columns] -= times
            highest = int(counts.max(initial=0))
        if not self.outside_fleet:
            return highest
        return max(highest, *(count - decided.count(name) for name, count in self.outside_fleet.items()))


_parsed_placements: dict[Hashable, ParsedPlacement] = {}


def parse_placement(placement: Placement) -> ParsedPlacement:
    """The parsed placement; equal placements share one, so that cached results are found again."""
    key = hashable_key(placement)
    plan = _parsed_placements.get(key)
    if plan is None:
        if len(_parsed_placements) >= _MAX_PARSED_PLACEMENTS:
            _parsed_placements.clear()
        plan = _parsed_placements[key] = ParsedPlacement(placement)
    return plan


class ClassSelector(NamedTuple):
    """A requirement of a ResourceQuota on the priority class of pods."""

    operator: str
    classes: tuple[str, ...] = ()

    def matches(self, priority_class: str) -> bool:
        return {
            "In": priority_class in self.classes,
            "NotIn": priority_class not in self.classes,
            "Exists": bool(priority_class),
            "DoesNotExist": not priority_class,
        }.get(self.operator, False)


class QuotaRoom(NamedTuple):
    """What a ResourceQuota in a cluster leaves free of the pods and requests that it limits."""

    cluster: str
    free: tuple[tuple[str, Fraction], ...]
    """Amounts by resource: cpu in milli-units, the rest in whole units."""
    selectors: tuple[ClassSelector, ...] = ()
    """It limits only pods whose priority class matches all of these."""

    def limits(self, priority_class: str) -> bool:
        return all(one.matches(priority_class) for one in self.selectors)


class QuotaUse(NamedTuple):
    """What a pod uses of the ResourceQuotas of its namespace; a key of reservations beside the names of resources."""

    namespace: str
    priority_class: str
    resource: str


class BlockedCluster(NamedTuple):
    """A cluster that was left recently, and until when it is blocked; None means for ever."""

    cluster: str
    until: datetime | None


class PlacementRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for clusters."""

    placement: ParsedPlacement
    api_version: str = ""
    kind: str = ""
    uid: str = ""
    replicas: int = 0
    resource_request: tuple[tuple[str, int], ...] | None = None
    """What one replica needs: cpu in milli-units, the rest in whole units; None when nothing is required."""
    node_claim: NodeClaim | None = None
    """Which nodes a replica may run on; None means all without taints."""
    components: tuple[Component, ...] = ()
    placed: tuple[tuple[str, int], ...] = ()
    """Where it is placed, with replicas, in binding order."""
    evicting: tuple[str, ...] = ()
    blocked: tuple[BlockedCluster, ...] = ()
    observed_affinity: str = ""
    """The affinity group that was used last."""
    fresh: bool = False
    prefers_placed: bool = True
    affinity_clusters: frozenset[str] | None = None
    """The clusters where all members of its affinity group are; None when there are none yet."""
    anti_affinity_clusters: frozenset[str] = frozenset()
    """The clusters where a member of its anti-affinity group is."""
    candidates: frozenset[str] | None = None
    """The decisions of the Placement that it references; None when it references none."""
    quota_room: tuple[QuotaRoom, ...] = ()
    """What quotas of its namespace in clusters leave free; a cluster may have several, or none."""
    namespace: str = ""
    """The namespace of the workload, whose quotas apply to it."""
    priority_class: str = ""
    """The priority class of one replica; components have their own."""
    group: int = -1
    """The affinity group that is tried."""
    priority: int = 0
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES

    @property
    def affinity_term(self) -> ClusterAffinityTerm | None:
        return self.placement.groups[self.group] if self.group >= 0 else None

    @property
    def is_workload(self) -> bool:
        return self.replicas > 0 or self.resource_request is not None or bool(self.components)

    @property
    def in_component_sets(self) -> bool:
        """Counted in whole sets of components, all in one cluster."""
        return bool(self.components) and self.feature_gates.components and self.placement.single_cluster

    def footprint(self) -> dict[str | QuotaUse, int]:
        """What one replica needs, or one set of all components: pods, resources, and parts of the quotas that limit it."""
        if not self.components and not self.quota_room:
            return {"pods": 1, **dict(self.resource_request or ())}
        uses = (
            self._uses_of_components() if self.components else ((self.priority_class, 1, self.resource_request or ()),)
        )
        amounts: dict[str | QuotaUse, int] = {}
        for priority_class, pods, request in uses:
            for resource, amount in (("pods", 1), *request):
                amounts[resource] = amounts.get(resource, 0) + pods * amount
                if self.quota_room:
                    key = QuotaUse(self.namespace, priority_class, resource)
                    amounts[key] = amounts.get(key, 0) + pods * amount
        return amounts

    def _uses_of_components(self) -> Iterator[tuple[str, int, tuple[tuple[str, int], ...]]]:
        for component in self.components:
            needs = component.replica_requirements
            if needs is None:
                yield "", component.replicas, ()
            else:
                yield needs.priority_class_name, component.replicas, resource_request_of(needs.resource_request)

    @property
    def placed_clusters(self) -> tuple[str, ...]:
        """The clusters in use, which some filters skip and locality prefers."""
        return tuple([name for name, _ in self.placed]) if self.prefers_placed else ()

    @property
    def last_wins_ties(self) -> bool:
        """Whether ties go to the last name: when the FNV-1a hash of the uid is odd.

        The hash multiplies only by odd numbers, so its last bit depends on the start value and all bytes.
        """
        if not self.uid:
            return False
        text = self.uid.encode()
        return not (int.from_bytes(text) & int.from_bytes(b"\x01" * len(text))).bit_count() & 1


def placement_request_of(
    binding: Binding,
    *,
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES,
    others: Iterable[Binding] = (),
    candidates: Iterable[str] | None = None,
) -> PlacementRequest:
    """The request of a binding that has a placement.

    `others` are the bindings that may share an affinity group with it (used only with that gate on);
    `candidates` are the clusters decided for the Placement that its `placementRef` names.
    """
    spec, status = binding.spec, binding.status
    resource, needs = spec.resource, spec.replica_requirements
    triggered, scheduled = spec.reschedule_triggered_at, status.last_scheduled_time
    groups = spec.workload_affinity_groups
    companions, rivals = None, frozenset[str]()
    if feature_gates.workload_affinity and groups is not None and binding.metadata.namespace:
        neighbours = [other for other in others if _is_other_binding(other, binding)]
        companions = _clusters_of_affinity_group(neighbours, groups.affinity_group)
        rivals = _clusters_of_anti_affinity_group(neighbours, groups.anti_affinity_group)
    return PlacementRequest(
        placement=parse_placement(spec.placement or Placement()),
        api_version=resource.api_version,
        kind=resource.kind,
        uid=resource.uid,
        replicas=spec.replicas,
        resource_request=None if needs is None else resource_request_of(needs.resource_request),
        node_claim=None if needs is None else needs.node_claim,
        components=spec.components,
        placed=tuple([(target.name, target.replicas) for target in spec.clusters]),
        evicting=tuple([task.from_cluster for task in spec.graceful_eviction_tasks]),
        blocked=_blocked_clusters(binding) if spec.active_eviction_history else (),
        observed_affinity=status.scheduler_observing_affinity_name,
        fresh=triggered is not None and scheduled is not None and triggered > scheduled,
        affinity_clusters=companions,
        anti_affinity_clusters=rivals,
        candidates=None if candidates is None else frozenset(candidates),
        namespace=(needs.namespace if needs is not None else "") or resource.namespace,
        priority_class=needs.priority_class_name if needs is not None else "",
        priority=spec.schedule_priority.priority if spec.schedule_priority is not None else 0,
        feature_gates=feature_gates,
    )


def resource_request_of(resources: "dict[str, str | int | float]") -> tuple[tuple[str, int], ...]:
    """The resource request of one replica in whole numbers; zero amounts are omitted."""
    amounts = [
        (name, milli_value(quantity) if name == "cpu" else int_value(quantity)) for name, quantity in resources.items()
    ]
    amounts = [(name, amount) for name, amount in amounts if amount > 0]
    amounts.sort()
    return tuple(amounts)


def _blocked_clusters(binding: Binding) -> tuple[BlockedCluster, ...]:
    failover = binding.spec.failover
    application = failover.application if failover is not None else None
    seconds = application.block_predecessor_seconds if application is not None else None
    if seconds is None:
        seconds = _DEFAULT_BLOCK_SECONDS
    return tuple(
        BlockedCluster(
            entry.cluster_name,
            entry.creation_timestamp + timedelta(seconds=seconds) if seconds and entry.creation_timestamp else None,
        )
        for entry in binding.spec.active_eviction_history
    )


def _is_other_binding(other: Binding, binding: Binding) -> bool:
    """A binding is identified by the name derived from its template, whatever the object's own name is."""
    resource = binding.spec.resource
    own = f"{resource.name.replace(':', '.')}-{resource.kind}".lower()
    return other.metadata.namespace == binding.metadata.namespace and other.metadata.name != own


def _clusters_of_affinity_group(neighbours: Sequence[Binding], group: str) -> frozenset[str] | None:
    """The clusters that every placed member of the group is in."""
    places = [
        frozenset(target.name for target in other.spec.clusters)
        for other in neighbours
        if group and _groups_of(other).affinity_group == group and other.spec.clusters
    ]
    return frozenset.intersection(*places) if places else None


def _clusters_of_anti_affinity_group(neighbours: Sequence[Binding], group: str) -> frozenset[str]:
    return frozenset(
        target.name
        for other in neighbours
        if group and _groups_of(other).anti_affinity_group == group
        for target in other.spec.clusters
    )


def _groups_of(binding: Binding) -> WorkloadAffinityGroups:
    return binding.spec.workload_affinity_groups or _NO_GROUPS
