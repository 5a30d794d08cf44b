from typing import NamedTuple

import numpy as np
import pytest

from trimtab.decide import framework
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import (
    CachedFilters,
    Check,
    FilterPlugin,
    Reason,
    Rejection,
    ScorePlugin,
    Scorer,
    SparseScores,
    feasible_mask,
    first_rejections,
    score_plugin,
    scores_of_target,
    weighted_total,
)


class Thing(NamedTuple):
    name: str
    size: int = 0


class SimpleRequest(NamedTuple):
    limit: int = 0
    shunned: tuple[str, ...] = ()


def reject_large(request: SimpleRequest, fleet: Fleet[Thing]) -> Check[Thing]:
    return lambda thing: (
        Reason("TooBig", f"{thing.size} is over {request.limit}") if thing.size > request.limit else None
    )


def reject_named(request: SimpleRequest, fleet: Fleet[Thing]) -> Check[Thing]:
    return lambda _: Reason("Shunned", "is shunned")


def size(request: SimpleRequest, fleet: Fleet[Thing]) -> Scorer[Thing]:
    return lambda thing: thing.size


SMALL: FilterPlugin[SimpleRequest, Thing] = FilterPlugin(
    "Small", reject_large, reads=lambda request: request.limit, skips_placed=True
)
NAMED: FilterPlugin[SimpleRequest, Thing] = FilterPlugin(
    "Shunned", reject_named, targets=lambda request: request.shunned
)
SIZE: ScorePlugin[SimpleRequest, Thing] = ScorePlugin("Size", size, reads=lambda _: None)
FLEET = Fleet.of([Thing("a", 1), Thing("b", 2), Thing("c", 3)])


def test_a_target_is_feasible_when_no_filter_rejects_it() -> None:
    assert feasible_mask([NAMED, SMALL], SimpleRequest(limit=2, shunned=("a",)), FLEET).tolist() == [False, True, False]


def test_a_filter_that_skips_placed_targets_does_not_reject_them() -> None:
    assert feasible_mask([SMALL], SimpleRequest(limit=2), FLEET, placed=[2]).tolist() == [True, True, True]


def test_a_placed_target_is_still_rejected_by_other_filters() -> None:
    request = SimpleRequest(limit=0, shunned=("c",))
    assert feasible_mask([NAMED, SMALL], request, FLEET, placed=[2]).tolist() == [False, False, False]
    assert feasible_mask([SMALL, NAMED], request, FLEET, placed=[2]).tolist() == [False, False, False]


def test_first_rejections_agree_with_the_feasible_mask() -> None:
    request = SimpleRequest(limit=2, shunned=("a",))
    rejections = dict(first_rejections([NAMED, SMALL], request, FLEET, range(3)))
    assert rejections == {
        0: Rejection("Shunned", Reason("Shunned", "is shunned")),
        1: None,
        2: Rejection("Small", Reason("TooBig", "3 is over 2")),
    }


def test_requests_that_agree_in_the_part_a_plugin_reads_share_its_results() -> None:
    studied: list[SimpleRequest] = []

    def study(request: SimpleRequest, fleet: Fleet[Thing]) -> Check[Thing]:
        studied.append(request)
        return reject_large(request, fleet)

    plugin: FilterPlugin[SimpleRequest, Thing] = FilterPlugin("Counted", study, reads=lambda request: request.limit)
    for shun in ("x", "y", "z"):
        feasible_mask([plugin], SimpleRequest(limit=2, shunned=(shun,)), FLEET)
    assert len(studied) == 1


def test_scores_are_summed_by_weight() -> None:
    assert weighted_total([(SIZE, 10)], SimpleRequest(), FLEET, np.ones(len(FLEET), dtype=bool)).tolist() == [
        10,
        20,
        30,
    ]


def test_hashable_keys_are_equal_for_equal_values_with_dicts() -> None:
    assert framework.hashable_key({"b": 1, "a": [2]}) == framework.hashable_key({"a": [2], "b": 1})


def test_cached_filters_return_the_same_result_as_single_filters() -> None:
    sieve = CachedFilters([NAMED, SMALL])
    for limit in range(4):
        for shun in ((), ("a",), ("b", "c")):
            for spared in ((), (2,), (0, 1)):
                request = SimpleRequest(limit=limit, shunned=shun)
                expected = feasible_mask([NAMED, SMALL], request, FLEET, spared)
                sifted = sieve.feasible(request, FLEET, spared)
                assert sifted.mask.tolist() == expected.tolist()
                assert [expected[column] for column in sifted.columns] == [True] * int(expected.sum())


def test_message_of_a_reason_is_built_when_it_is_read() -> None:
    built = []

    def message() -> str:
        built.append("once")
        return "too big"

    reason = Reason("TooBig", message)
    assert (reason.code, built) == ("TooBig", [])
    assert reason == Reason("TooBig", "too big")


def test_skipped_score_contributes_nothing_and_normalization_sees_only_feasible_targets() -> None:
    def rule(request: SimpleRequest, fleet: Fleet[Thing]) -> Scorer[Thing]:
        return lambda thing: thing.size

    feasible = np.array([True, True, False])
    halved: ScorePlugin[SimpleRequest, Thing] = ScorePlugin("Half", rule, normalize=lambda raw: 100 * raw // raw.max())
    skipped: ScorePlugin[SimpleRequest, Thing] = ScorePlugin("Skipped", rule, skips=lambda _: True)
    total = weighted_total([(halved, 1), (skipped, 5)], SimpleRequest(), FLEET, feasible)
    assert total[feasible].tolist() == [50, 100]
    assert scores_of_target([halved, skipped], SimpleRequest(), FLEET, feasible, 0) == {"Half": 50, "Skipped": 0}


def test_a_score_has_at_most_one_array_form() -> None:
    with pytest.raises(ValueError, match="two array forms"):
        score_plugin("Twofold", array=lambda *_: None, sparse=lambda *_: SparseScores(None, None))
