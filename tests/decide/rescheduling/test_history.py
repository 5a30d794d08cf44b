from datetime import UTC, datetime, timedelta

from trimtab.decide.rescheduling.history import DONE, LANDED_BACK, ChainStep, MoveChain, MoveRecord, ReschedulingHistory

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


def move(outcome: str, pod: str = "u", minutes: int = 0, **more: str) -> MoveRecord:
    return MoveRecord(owner="o", pod=pod, outcome=outcome, at=NOON - timedelta(minutes=minutes), **more)


def test_a_successful_move_resets_the_consecutive_wasted_moves() -> None:
    assert ReschedulingHistory(moves=(move(LANDED_BACK), move(LANDED_BACK))).consecutive_wasted_moves("o") == 2
    assert ReschedulingHistory(moves=(move(LANDED_BACK), move(DONE))).consecutive_wasted_moves("o") == 0


def test_three_wasted_moves_freeze_the_owner() -> None:
    history = ReschedulingHistory(moves=(move(LANDED_BACK), move(LANDED_BACK), move(LANDED_BACK)))
    assert history.is_frozen("o")
    assert history.frozen_owners == ["o"]
    assert not ReschedulingHistory(moves=history.moves[:2]).is_frozen("o")


def test_a_reverse_move_counts_for_an_hour() -> None:
    recent = ReschedulingHistory(moves=(move(DONE, source="b", target="a", minutes=59),))
    assert recent.has_reverse_move("o", "a", "b", NOON)
    assert not recent.has_reverse_move("o", "b", "a", NOON)
    assert not recent.has_reverse_move("o", "a", "b", NOON + timedelta(minutes=1))


def test_a_pod_that_was_not_evicted_removes_its_move_and_its_chain() -> None:
    chain = MoveChain(steps=(ChainStep(pod="u"), ChainStep(pod="v")), made=1)
    history = ReschedulingHistory(moves=(move("", "u"), move(DONE, "v")), chains=(chain,))
    assert history.without_move("u") == ReschedulingHistory(moves=(move(DONE, "v"),))


def test_moves_older_than_a_day_are_dropped() -> None:
    history = ReschedulingHistory(moves=(move(DONE, "old", minutes=24 * 60), move(DONE, "new", minutes=1)))
    assert [one.pod for one in history.with_moves([], NOON).moves] == ["new"]
