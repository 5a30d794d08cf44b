from datetime import UTC, datetime, timedelta

from trimtab.decide.rescheduling.history import BACK, DONE, Chain, History, Moved, Step

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def move(outcome: str, pod: str = "u", minutes: int = 0, **more: str) -> Moved:
    return Moved(owner="o", pod=pod, outcome=outcome, at=NOON - timedelta(minutes=minutes), **more)


def test_a_successful_move_resets_the_consecutive_wasted_moves() -> None:
    assert History(moves=(move(BACK), move(BACK))).wasted_in_a_row("o") == 2
    assert History(moves=(move(BACK), move(DONE))).wasted_in_a_row("o") == 0


def test_three_wasted_moves_freeze_the_owner() -> None:
    history = History(moves=(move(BACK), move(BACK), move(BACK)))
    assert history.frozen("o")
    assert history.frozen_owners == ["o"]
    assert not History(moves=history.moves[:2]).frozen("o")


def test_a_reverse_move_counts_for_an_hour() -> None:
    recent = History(moves=(move(DONE, source="b", target="a", minutes=59),))
    assert recent.went_the_other_way("o", "a", "b", NOON)
    assert not recent.went_the_other_way("o", "b", "a", NOON)
    assert not recent.went_the_other_way("o", "a", "b", NOON + timedelta(minutes=1))


def test_a_pod_that_was_not_evicted_removes_its_move_and_its_chain() -> None:
    chain = Chain(steps=(Step(pod="u"), Step(pod="v")), made=1)
    history = History(moves=(move("", "u"), move(DONE, "v")), chains=(chain,))
    assert history.undone("u") == History(moves=(move(DONE, "v"),))


def test_moves_older_than_a_day_are_dropped() -> None:
    history = History(moves=(move(DONE, "old", minutes=24 * 60), move(DONE, "new", minutes=1)))
    assert [one.pod for one in history.with_moves([], NOON).moves] == ["new"]
