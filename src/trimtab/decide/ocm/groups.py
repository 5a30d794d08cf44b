"""Splits the chosen clusters into decision groups, and the groups into objects of at most a hundred clusters."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import DecisionGroup, GroupStrategy
from trimtab.api.value import IntOrString
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import sealed
from trimtab.decide.ocm.decision import Group, Misconfigured
from trimtab.decide.ocm.selectors import matcher_of
from trimtab.decide.ocm.snapshot import PAGE, page_name


def grouped(chosen: Array, strategy: GroupStrategy, fleet: Fleet[ManagedCluster]) -> tuple[tuple[Group, ...], str]:
    """The groups, and why the remaining clusters are in none; the order of the columns is kept."""
    groups: list[Group] = []
    try:
        size = group_size(strategy.clusters_per_decision_group, len(chosen))
        for wanted in strategy.decision_groups:
            inside = matching(wanted, fleet)[chosen]
            groups += _runs(wanted.group_name, chosen[inside], size, fleet)
            chosen = chosen[~inside]
    except Misconfigured as fault:
        return tuple(groups), fault.message
    groups += _runs("", chosen, size, fleet)
    return tuple(groups) or (Group("", []),), ""


def group_size(wanted: IntOrString, total: int) -> int:
    """The maximum number of clusters in a group, given their total number."""
    if isinstance(wanted, str):
        if not wanted.endswith("%") or not wanted[:-1].isdigit():
            raise Misconfigured("", f"{wanted} invalid type: string is not a percentage")
        wanted = -(-int(wanted[:-1]) * total // 100)
    return wanted if 0 < wanted <= total else total


def matching(group: DecisionGroup, fleet: Fleet[ManagedCluster]) -> Array:
    selector = group.group_cluster_selector
    return fleet.column(("in group", sealed(selector)), lambda: matcher_of(selector), bool)


def _runs(name: str, columns: Array, size: int, fleet: Fleet[ManagedCluster]) -> Iterator[Group]:
    if len(columns) == 0:
        return
    names = fleet.called(columns)
    for start in range(0, len(names), size):
        yield Group(name, names[start : start + size])


class Page(NamedTuple):
    """One desired PlacementDecision."""

    name: str
    group: str
    group_index: int
    clusters: list[str]


def pages(placement: str, groups: Sequence[Group]) -> Iterator[Page]:
    """The objects that hold the groups, numbered across all groups; an empty group has one empty object."""
    number = 0
    for index, group in enumerate(groups):
        for start in range(0, max(1, len(group.clusters)), PAGE):
            number += 1
            yield Page(page_name(placement, number), group.name, index, group.clusters[start : start + PAGE])
