"""The request of one Placement, and its weighted prioritizers."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementSpec
from trimtab.api.kinds.policy import PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate
from trimtab.api.value import Raw
from trimtab.decide.framework import ScorePlugin, hashable_key, prioritizers
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.snapshot import PlacementSnapshot

ADD_ON = "AddOn"
BUILT_IN = "BuiltIn"
_MAX_CACHED_POLICIES = 4096


class ScoreLookup(Protocol):
    """The scores that one AddOnPlacementScore has for a cluster, by name; None when there is no such object."""

    def __call__(self, resource: str, /) -> Mapping[str, int] | None: ...


CelProgram = Callable[[Raw, ScoreLookup], bool]
"""All expressions of one selector, evaluated on the wire form of one cluster."""


class CelCompiler(Protocol):
    """Compiles the expressions of a CEL selector, or returns the error message."""

    def __call__(self, expressions: tuple[str, ...], /) -> CelProgram | str: ...


class WeightedPrioritizer(NamedTuple):
    """A prioritizer and its weight."""

    name: str
    coordinate: ScoreCoordinate
    weight: int
    plugin: ScorePlugin[Any, Any]


class OcmRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of one Placement."""

    namespace: str
    name: str
    spec: PlacementSpec
    now: datetime
    placed: tuple[str, ...] = ()
    """The clusters in use."""
    decided: tuple[str, ...] = ()
    """Its own decisions among those that the fleet counts: a cluster as often as it is listed."""
    cel: CelCompiler | None = None
    by_score: bool = False
    """Decisions are listed best first, not in name order."""
    uses_spread_policy: bool = False
    """The spread policy is applied."""


def ocm_request_of(
    placement: OcmPlacement,
    snapshot: PlacementSnapshot,
    cel: CelCompiler | None = None,
    *,
    by_score: bool = False,
    uses_spread_policy: bool = False,
) -> OcmRequest:
    holding = snapshot.decisions_of(placement.namespace, placement.name)
    return OcmRequest(
        namespace=placement.namespace,
        name=placement.name,
        spec=placement.spec,
        now=snapshot.now,
        placed=holding.distinct_clusters,
        decided=holding.listed_clusters,
        cel=cel,
        by_score=by_score,
        uses_spread_policy=uses_spread_policy,
    )


_cached_policies: dict[Hashable, tuple[WeightedPrioritizer, ...]] = {}


def weighted_prioritizers(policy: PrioritizerPolicy) -> tuple[WeightedPrioritizer, ...]:
    """The effective prioritizers with their weights; raises Misconfigured."""
    key = hashable_key(policy)
    reading = _cached_policies.get(key)
    if reading is None:
        if len(_cached_policies) >= _MAX_CACHED_POLICIES:
            _cached_policies.clear()
        reading = _cached_policies[key] = tuple(_read_prioritizers(policy))
    return reading


def _read_prioritizers(policy: PrioritizerPolicy) -> Iterator[WeightedPrioritizer]:
    for config in _by_identity(policy).values():
        weight = 1 if config.weight is None else config.weight
        if weight == 0:
            continue
        if config.score_coordinate is None:
            raise Misconfigured("", "scoreCoordinate field is required")
        yield _prioritizer(config.score_coordinate, weight)


def _by_identity(policy: PrioritizerPolicy) -> dict[Hashable, PrioritizerConfig]:
    """The last configuration of each score counts; each add-on configuration is a score of its own."""
    if policy.mode not in ("", "Additive", "Exact"):
        raise Misconfigured("", f"incorrect prioritizer policy mode: {policy.mode}")
    configs: dict[Hashable, PrioritizerConfig] = {}
    for name in () if policy.mode == "Exact" else ("Balance", "Steady"):
        configs[BUILT_IN, name, None] = PrioritizerConfig(
            score_coordinate=ScoreCoordinate(type=BUILT_IN, built_in=name), weight=1
        )
    for position, config in enumerate(policy.configurations):
        coordinate = config.score_coordinate or ScoreCoordinate()
        own = None if coordinate.add_on is None else position
        configs[coordinate.type or BUILT_IN, coordinate.built_in, own] = config
    return configs


def _prioritizer(coordinate: ScoreCoordinate, weight: int) -> WeightedPrioritizer:
    if coordinate.type in ("", BUILT_IN):
        name = coordinate.built_in
        plugin = None if name == ADD_ON else prioritizers.get(name)
        if plugin is None:
            raise Misconfigured("", f"incorrect builtin prioritizer: {name}")
        return WeightedPrioritizer(name, coordinate, weight, plugin)
    if coordinate.add_on is None:
        raise Misconfigured("", "addOn should not be empty")
    name = f"{ADD_ON}/{coordinate.add_on.resource_name}/{coordinate.add_on.score_name}"
    return WeightedPrioritizer(name, coordinate, weight, prioritizers[ADD_ON])
