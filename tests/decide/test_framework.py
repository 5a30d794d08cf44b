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


SMALL: Filter[Ask, Thing] = Filter("Small", small, reads=lambda ask: ask.limit, spares_placed=True)
SHUNNED: Filter[Ask, Thing] = Filter("Shunned", shunned, about=lambda ask: ask.shunned)
SIZE: Score[Ask, Thing] = Score("Size", size, reads=lambda _: None)
FLEET = Fleet.of([Thing("a", 1), Thing("b", 2), Thing("c", 3)])


def test_a_target_stays_when_no_filter_objects() -> None:
    assert sift([SHUNNED, SMALL], Ask(limit=2, shunned=("a",)), FLEET).tolist() == [False, True, False]


def test_a_filter_that_spares_the_placed_does_not_judge_them() -> None:
    assert sift([SMALL], Ask(limit=2), FLEET, spared=[2]).tolist() == [True, True, True]


def test_a_spared_target_is_still_refused_by_the_other_filters() -> None:
    ask = Ask(limit=0, shunned=("c",))
    assert sift([SHUNNED, SMALL], ask, FLEET, spared=[2]).tolist() == [False, False, False]
    assert sift([SMALL, SHUNNED], ask, FLEET, spared=[2]).tolist() == [False, False, False]


def test_objections_say_in_words_what_sift_says_in_bits() -> None:
    ask = Ask(limit=2, shunned=("a",))
    said = dict(objections([SHUNNED, SMALL], ask, FLEET, range(3)))
    assert said == {
        0: Objection("Shunned", Reason("Shunned", "is shunned")),
        1: None,
        2: Objection("Small", Reason("TooBig", "3 is over 2")),
    }


def test_asks_that_agree_in_the_part_a_plugin_reads_share_its_verdicts() -> None:
    studied: list[Ask] = []

    def study(ask: Ask, fleet: Fleet[Thing]) -> Check[Thing]:
        studied.append(ask)
        return small(ask, fleet)

    plugin: Filter[Ask, Thing] = Filter("Counted", study, reads=lambda ask: ask.limit)
    for shun in ("x", "y", "z"):
        sift([plugin], Ask(limit=2, shunned=(shun,)), FLEET)
    assert len(studied) == 1


def test_scores_add_up_with_their_weights() -> None:
    assert tally([(SIZE, 10)], Ask(), FLEET).tolist() == [10, 20, 30]


def test_a_seal_is_equal_for_equal_values_with_dicts_in_them() -> None:
    assert framework.sealed({"b": 1, "a": [2]}) == framework.sealed({"a": [2], "b": 1})


def test_a_sieve_lets_pass_what_the_filters_let_pass_one_after_the_other() -> None:
    sieve = Sieve([SHUNNED, SMALL])
    for limit in range(4):
        for shun in ((), ("a",), ("b", "c")):
            for spared in ((), (2,), (0, 1)):
                ask = Ask(limit=limit, shunned=shun)
                expected = sift([SHUNNED, SMALL], ask, FLEET, spared)
                sifted = sieve.sift(ask, FLEET, spared)
                assert sifted.mask.tolist() == expected.tolist()
                assert [expected[column] for column in sifted.columns] == [True] * int(expected.sum())
