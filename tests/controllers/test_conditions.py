"""Status conditions are found and set as in Go's `meta` package."""

from builders import MINUTE, NOON
from views import FakeView

from trimtab.api.value import Condition
from trimtab.controllers.conditions import (
    find_condition,
    is_condition_true,
    join_messages,
    with_condition,
    with_kstatus_conditions,
)

OLD = Condition(type="Ready", status="True", reason="Old", last_transition_time=NOON - MINUTE)


def test_transition_time_changes_only_with_the_status() -> None:
    same = Condition(type="Ready", status="True", reason="New", last_transition_time=NOON)
    (kept,) = with_condition((OLD,), same)
    assert (kept.reason, kept.last_transition_time) == ("New", NOON - MINUTE)
    (flipped,) = with_condition((OLD,), same.but(status="False"))
    assert flipped.last_transition_time == NOON


def test_condition_of_new_type_is_appended() -> None:
    other = Condition(type="Stalled", status="False", last_transition_time=NOON)
    assert with_condition((OLD,), other) == (OLD, other)
    assert find_condition((OLD, other), "Stalled") is other
    assert find_condition((OLD,), "Stalled") is None


def test_missing_and_unknown_conditions_are_not_true() -> None:
    assert is_condition_true((OLD,), "Ready")
    assert not is_condition_true((OLD.but(status="Unknown"),), "Ready")
    assert not is_condition_true((), "Ready")


def test_fault_sets_stalled_and_clears_ready() -> None:
    def statuses(**options: bool) -> dict[str, tuple[str, str]]:
        conditions = with_kstatus_conditions((), "Counted", "text", FakeView(), **options)
        return {c.type: (c.status, c.message) for c in conditions}

    assert statuses() == {"Ready": ("True", "text"), "Reconciling": ("False", ""), "Stalled": ("False", "")}
    assert statuses(fault=True) == {
        "Ready": ("False", "text"),
        "Reconciling": ("False", ""),
        "Stalled": ("True", "text"),
    }


def test_repeated_messages_are_joined_once() -> None:
    assert join_messages(["a", "a"]) == "a"
    assert join_messages(["a", "b", "a"]) == "[a, b]"
