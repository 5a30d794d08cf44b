from typing import NamedTuple

from trimtab.decide import framework
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Filter, Grade, Objection, Reason, Score, Sieve, objections, sift, tally


class Thing(NamedTuple):
    name: str
    size: int = 0


class Ask(NamedTuple):
    limit: int = 0
    shunned: tuple[str, ...] = ()


def small(ask: Ask, fleet: Fleet[Thing]) -> Check[Thing]:
    return lambda thing: Reason("TooBig", f"{thing.size} is over {ask.limit}") if thing.size > ask.limit else None


def shunned(ask: Ask, fleet: Fleet[Thing]) -> Check[Thing]:
    return lambda _: Reason("Shunned", "is shunned")


def size(ask: Ask, fleet: Fleet[Thing]) -> Grade[Thing]:
    return lambda thing: thing.size


SMALL: Filter[Ask, Thing] = Filter("Small", small, reads=lambda request: request.limit, spares_placed=True)
SHUNNED: Filter[Ask, Thing] = Filter("Shunned", shunned, about=lambda request: request.shunned)
SIZE: Score[Ask, Thing] = Score("Size", size, reads=lambda _: None)
FLEET = Fleet.of([Thing("a", 1), Thing("b", 2), Thing("c", 3)])


def test_a_target_is_feasible_when_no_filter_rejects_it() -> None:
    assert sift([SHUNNED, SMALL], Ask(limit=2, shunned=("a",)), FLEET).tolist() == [False, True, False]


def test_a_filter_that_skips_placed_targets_does_not_reject_them() -> None:
    assert sift([SMALL], Ask(limit=2), FLEET, spared=[2]).tolist() == [True, True, True]


def test_a_placed_target_is_still_rejected_by_other_filters() -> None:
    request = Ask(limit=0, shunned=("c",))
    assert sift([SHUNNED, SMALL], request, FLEET, spared=[2]).tolist() == [False, False, False]
    assert sift([SMALL, SHUNNED], request, FLEET, spared=[2]).tolist() == [False, False, False]


def test_first_rejections_agree_with_the_feasible_mask() -> None:
    request = Ask(limit=2, shunned=("a",))
    rejections = dict(objections([SHUNNED, SMALL], request, FLEET, range(3)))
    assert rejections == {
        0: Objection("Shunned", Reason("Shunned", "is shunned")),
        1: None,
        2: Objection("Small", Reason("TooBig", "3 is over 2")),
    }


def test_requests_that_agree_in_the_part_a_plugin_reads_share_its_results() -> None:
    studied: list[Ask] = []

    def study(request: Ask, fleet: Fleet[Thing]) -> Check[Thing]:
        studied.append(request)
        return small(request, fleet)

    plugin: Filter[Ask, Thing] = Filter("Counted", study, reads=lambda request: request.limit)
    for shun in ("x", "y", "z"):
        sift([plugin], Ask(limit=2, shunned=(shun,)), FLEET)
    assert len(studied) == 1


def test_scores_are_summed_by_weight() -> None:
    assert tally([(SIZE, 10)], Ask(), FLEET).tolist() == [10, 20, 30]


def test_hashable_keys_are_equal_for_equal_values_with_dicts() -> None:
    assert framework.sealed({"b": 1, "a": [2]}) == framework.sealed({"a": [2], "b": 1})


def test_cached_filters_return_the_same_result_as_single_filters() -> None:
    sieve = Sieve([SHUNNED, SMALL])
    for limit in range(4):
        for shun in ((), ("a",), ("b", "c")):
            for spared in ((), (2,), (0, 1)):
                request = Ask(limit=limit, shunned=shun)
                expected = sift([SHUNNED, SMALL], request, FLEET, spared)
                sifted = sieve.sift(request, FLEET, spared)
                assert sifted.mask.tolist() == expected.tolist()
                assert [expected[column] for column in sifted.columns] == [True] * int(expected.sum())
