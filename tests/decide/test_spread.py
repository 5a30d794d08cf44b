from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.clusters import fleet, member, placement_request
from trimtab.decide.karmada import decide
from trimtab.decide.spread import ClusterRanking
from trimtab.plugins import load

load()
numbers = st.integers(-(2**40), 2**40)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2**32), st.integers(0, 2) | numbers, st.integers(0, 2) | numbers),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 8),
)
def test_clusters_rank_by_overflow_prioritizers_score_capacity_and_name(
    rows: list[tuple[int, int, int, int]], times: int
) -> None:
    """Few clusters are sorted as lists, many as arrays."""
    rows = rows * times
    overflow, room, score, total = (np.array(side, dtype=np.int64) for side in zip(*rows, strict=True))
    standing = ClusterRanking(room, score=score, total=total, overflow=overflow)
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], -rows[i][3], -rows[i][2], -rows[i][1], i))
    assert standing.sort(np.arange(len(rows))) == order


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.dictionaries(st.integers(0, 79), st.integers(-2, 2)))
def test_scores_of_a_few_clusters_rank_like_scores_of_all(room: list[int], few: dict[int, int]) -> None:
    capacity, scores = np.array(room), np.zeros(len(room), dtype=np.int64)
    few = {column: score for column, score in few.items() if column < len(room)}
    scores[list(few)] = list(few.values())
    columns = np.arange(len(room))
    assert ClusterRanking(capacity, score=few).sort(columns) == ClusterRanking(capacity, score=scores).sort(columns)


def spread(*constraints: tuple[str, int, int], **scheduling: str) -> dict[str, Any]:
    listed = [{"spreadByField": field, "minGroups": low, "maxGroups": high} for field, low, high in constraints]
    return {"spreadConstraints": listed, "replicaScheduling": scheduling or {"replicaSchedulingType": "Duplicated"}}


def test_the_clusters_with_most_capacity_are_selected_up_to_max_groups() -> None:
    all_clusters = fleet(member("m1", 1), member("m2", 9), member("m3", 5))
    decision = decide(placement_request(placement=spread(("cluster", 1, 2)), replicas=1), all_clusters)
    assert decision.clusters == [("m2", 1), ("m3", 1)]


def test_too_few_clusters_are_an_error() -> None:
    decision = decide(placement_request(placement=spread(("cluster", 2, 2)), replicas=1), fleet(member("m1")))
    assert decision.condition[2] == (
        "failed to select clusters: the number of feasible clusters is less than spreadConstraint.MinGroups"
    )


def test_a_cluster_in_use_is_replaced_when_capacity_is_needed() -> None:
    aggregated = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
    all_clusters = fleet(member("m1", 1), member("m2", 9))
    request = placement_request(
        placement=spread(("cluster", 1, 1), **aggregated), replicas=5, clusters=[{"name": "m1", "replicas": 1}]
    )
    assert decide(request, all_clusters).clusters == [("m2", 5)]


def test_each_selected_region_gets_a_cluster() -> None:
    all_clusters = fleet(
        member("m1", 9, region="a"),
        member("m2", 8, region="a"),
        member("m3", 1, region="b"),
        member("m4", 7, region="c"),
    )
    decision = decide(
        placement_request(placement=spread(("region", 2, 2), ("cluster", 2, 3)), replicas=1), all_clusters
    )
    assert decision.clusters == [("m1", 1), ("m2", 1), ("m3", 1)]


AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}


def outcome(rules: dict[str, Any], *members: Any, replicas: int = 1) -> Any:
    """The selected clusters, or why there are none."""
    decision = decide(placement_request(placement=rules, replicas=replicas), fleet(*members))
    return [name for name, _ in decision.clusters] if decision.ok else decision.condition[2]


def test_exactly_as_many_clusters_as_required_are_enough() -> None:
    assert outcome(spread(("cluster", 2, 5)), member("m1"), member("m2")) == ["m1", "m2"]


def test_no_more_clusters_are_selected_than_max_groups_whatever_the_capacity() -> None:
    members = member("m1", 2), member("m2", 2), member("m3", 2)
    assert outcome(spread(("cluster", 1, 2), **AGGREGATED), *members, replicas=5) == (
        "failed to select clusters: no enough resource when selecting 2 clusters"
    )
    assert outcome(spread(("cluster", 1, 2), **AGGREGATED), *members, replicas=4) == ["m1", "m2"]


def test_too_few_regions_are_an_error() -> None:
    members = member("m1", region="a"), member("m2", region="a")
    rules = spread(("region", 2, 2), ("cluster", 2, 2))
    assert outcome(rules, *members) == (
        "failed to select clusters: the number of feasible region is less than spreadConstraint.MinGroups"
    )
    assert outcome(rules, *members, member("m3", region="b")) in (["m1", "m3"], ["m2", "m3"])


def test_too_few_clusters_in_the_regions_are_an_error() -> None:
    members = member("m1", region="a"), member("m2", region="b")
    assert outcome(spread(("region", 2, 2), ("cluster", 3, 3)), *members) == (
        "failed to select clusters: the number of clusters is less than the cluster spreadConstraint.MinGroups"
    )
    assert outcome(spread(("region", 2, 2), ("cluster", 2, 3)), *members) == ["m1", "m2"]
