"""Splits the chosen clusters into decision groups, and the groups into objects of at most a hundred clusters."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from trimtab.api.cache_by_identity import cache_by_identity
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import DecisionGroup, DecisionStrategy, GroupStrategy
from trimtab.api.value import IntOrString
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import hashable_key
from trimtab.decide.ocm.decision import Misconfigured, OcmDecisionGroup
from trimtab.decide.ocm.selectors import matcher_of
from trimtab.decide.ocm.snapshot import PAGE_SIZE, page_name

_ONE_GROUP = DecisionStrategy().group_strategy


def split_into_groups(
    chosen: list[int], strategy: GroupStrategy, fleet: Fleet[ManagedCluster]
) -> tuple[tuple[OcmDecisionGroup, ...], str]:
    """The groups, and why the remaining clusters are in none; the order of the columns is kept."""
    if strategy is _ONE_GROUP or strategy == _ONE_GROUP:
        return (OcmDecisionGroup("", _names_of(chosen, fleet)),), ""
    groups: list[OcmDecisionGroup] = []
    try:
        size = group_size(strategy.clusters_per_decision_group, len(chosen))
        for wanted in strategy.decision_groups:
            is_inside = group_mask(wanted, fleet)
            inside = [column for column in chosen if is_inside[column]]
            groups += _split_into_chunks(wanted.group_name, inside, size, fleet)
            chosen = [column for column in chosen if not is_inside[column]]
    except Misconfigured as fault:
        return tuple(groups), fault.message
    groups += _split_into_chunks("", chosen, size, fleet)
    return tuple(groups) or (OcmDecisionGroup("", []),), ""


def _names_of(columns: list[int], fleet: Fleet[ManagedCluster]) -> list[str]:
    """The names of these columns. Placements that get the same long list of columns share their names."""
    if len(columns) < PAGE_SIZE:
        return fleet.names_at(columns)
    # the columns are stored with their names: while they are alive, no other list has their id
    return fleet.compute_once(("names", id(columns)), lambda: (columns, fleet.names_at(columns)), max_entries=64)[1]


def group_size(wanted: IntOrString, total: int) -> int:
    """The maximum number of clusters in a group, given their total number."""
    if isinstance(wanted, str):
        if not wanted.endswith("%") or not wanted[:-1].isdigit():
            raise Misconfigured("", f"{wanted} invalid type: string is not a percentage")
        wanted = -(-int(wanted[:-1]) * total // 100)
    return wanted if 0 < wanted <= total else total


def group_mask(group: DecisionGroup, fleet: Fleet[ManagedCluster]) -> Array:
    selector = group.group_cluster_selector
    return fleet.column(("in group", hashable_key(selector)), lambda: matcher_of(selector), bool)


def _split_into_chunks(
    name: str, columns: list[int], size: int, fleet: Fleet[ManagedCluster]
) -> list[OcmDecisionGroup]:
    names = fleet.names_at(columns)
    if len(names) <= size:
        return [OcmDecisionGroup(name, names)] if names else []
    return [OcmDecisionGroup(name, names[start : start + size]) for start in range(0, len(names), size)]


class DecisionPage(NamedTuple):
    """One desired PlacementDecision."""

    name: str
    group: str
    group_index: int
    clusters: list[str]


def decision_pages(placement: str, groups: Sequence[OcmDecisionGroup]) -> Iterator[DecisionPage]:
    """The objects that hold the groups, numbered across all groups; an empty group has one empty object."""
    number = 0
    for index, group in enumerate(groups):
        for clusters in [group.clusters] if len(group.clusters) <= PAGE_SIZE else _full_pages(group.clusters):
            number += 1
            yield DecisionPage(page_name(placement, number), group.name, index, clusters)


_full_pages: Callable[[list[str]], list[list[str]]] = cache_by_identity(
    lambda clusters: [clusters[start : start + PAGE_SIZE] for start in range(0, len(clusters), PAGE_SIZE)],
    max_entries=64,
)
"""The pages of a long list of clusters; groups with the same list share them."""
