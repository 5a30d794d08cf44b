"""The request of one Placement, and its weighted prioritizers."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementSpec
from trimtab.api.kinds.policy import PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate
from trimtab.api.value import Raw
from trimtab.decide.framework import Score, prioritizers, sealed
from trimtab.decide.ocm.decision import Misconfigured
from trimtab.decide.ocm.snapshot import Scene

ADD_ON = "AddOn"
BUILT_IN = "BuiltIn"
_READINGS_KEPT = 4096


class Scores(Protocol):
    """The scores that one AddOnPlacementScore has for a cluster, by name; None when there is no such object."""

    def __call__(self, resource: str) -> Mapping[str, int] | None: ...


Program = Callable[[Raw, Scores], bool]
"""All expressions of one selector, evaluated on the wire form of one cluster."""


class Compiler(Protocol):
    """Compiles the expressions of a CEL selector, or returns the error message."""

    def __call__(self, expressions: tuple[str, ...]) -> Program | str: ...


class Weighed(NamedTuple):
    """A prioritizer and its weight."""

    name: str
    coordinate: ScoreCoordinate
    weight: int
    plugin: Score[Any, Any]


class PlacementAsk(msgspec.Struct, frozen=True, kw_only=True):
    """The request of one Placement."""

    namespace: str
    name: str
    spec: PlacementSpec
    now: datetime
    placed: tuple[str, ...] = ()
    """The clusters in use."""
    decided: tuple[str, ...] = ()
    """Its own decisions among those that the fleet counts: a cluster as often as it is listed."""
    cel: Compiler | None = None
    by_score: bool = False
    """Decisions are listed best first, not in name order."""
    spreads: bool = False
    """The spread policy is applied."""


def ask_of(
    placement: OcmPlacement,
    scene: Scene,
    cel: Compiler | None = None,
    *,
    by_score: bool = False,
    spreads: bool = False,
) -> PlacementAsk:
    holding = scene.held_by(placement.namespace, placement.name)
    return PlacementAsk(
        namespace=placement.namespace,
        name=placement.name,
        spec=placement.spec,
        now=scene.now,
        placed=holding.placed,
        decided=holding.decided,
        cel=cel,
        by_score=by_score,
        spreads=spreads,
    )


_readings: dict[Hashable, tuple[Weighed, ...]] = {}


def weighed(policy: PrioritizerPolicy) -> tuple[Weighed, ...]:
    """The effective prioritizers with their weights; raises Misconfigured."""
    key = sealed(policy)
    reading = _readings.get(key)
    if reading is None:
        if len(_readings) >= _READINGS_KEPT:
            _readings.clear()
        reading = _readings[key] = tuple(_weighed(policy))
    return reading


def _weighed(policy: PrioritizerPolicy) -> Iterator[Weighed]:
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


def _prioritizer(coordinate: ScoreCoordinate, weight: int) -> Weighed:
    if coordinate.type in ("", BUILT_IN):
        name = coordinate.built_in
        plugin = None if name == ADD_ON else prioritizers.get(name)
        if plugin is None:
            raise Misconfigured("", f"incorrect builtin prioritizer: {name}")
        return Weighed(name, coordinate, weight, plugin)
    if coordinate.add_on is None:
        raise Misconfigured("", "addOn should not be empty")
    name = f"{ADD_ON}/{coordinate.add_on.resource_name}/{coordinate.add_on.score_name}"
    return Weighed(name, coordinate, weight, prioritizers[ADD_ON])
