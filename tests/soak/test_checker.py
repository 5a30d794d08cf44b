"""The checker finds each violation in a history that contains it, and accepts what faults of the driver explain."""

from typing import Any

import pytest

from soak.checker import CLOCK_BACK, PLANE, violations
from soak.history import BudgetFact, DesiredFact, Fact, FaultFact, GapFact, MoveFact, PodFact, WantedFact
from trimtab.api.value import Raw


def removal(*before: Fact, **last: Any) -> list[Fact]:
    """A history in which the object in m1 is deleted, and then the pod that was ready there."""
    return [
        WantedFact(0, "web", 1),
        DesiredFact(0, "m1", "web", 1),
        PodFact(1, "m1", "web-1", "web", ready=True),
        *before,
        DesiredFact(100, "m1", "web", last.get("desired")),
        PodFact(101, "m1", "web-1", "web", ready=False, deleting=True),
    ]


def move(name: str, started: int = 0, outcome: str = "", budget: str = "careful") -> Raw:
    spec = {"object": {"name": name}, "from": "m1", "cause": "Rebalance", "budgets": [{"name": budget}]}
    status = {"started": f"2030-01-01T00:{started // 60:02}:{started % 60:02}+00:00", "outcome": outcome}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def budget(**spec: Any) -> BudgetFact:
    return BudgetFact(0, {"metadata": {"name": "careful"}, "spec": spec})


def test_removal_of_the_last_ready_copy_is_found() -> None:
    (found,) = violations(removal())
    assert "the last ready copy of web, web-1 in m1, was removed" in found


def test_removal_of_the_last_ready_copy_is_found_when_its_object_is_scaled_down() -> None:
    history = [
        WantedFact(0, "web", 4),
        DesiredFact(0, "m1", "web", 2),
        PodFact(1, "m1", "web-1", "web", ready=True),
        DesiredFact(9, "m1", "web", 1),
        PodFact(10, "m1", "web-1", "web", ready=False, deleting=True),
    ]
    assert len(violations(history)) == 1


def test_removal_is_found_when_the_replacement_became_ready_much_later() -> None:
    assert len(violations([*removal(), PodFact(110, "m2", "web-2", "web", ready=True)])) == 1


def test_removal_is_found_when_the_replacement_was_lost_without_a_fault() -> None:
    lost = [PodFact(2, "m2", "web-2", "web", ready=True), PodFact(50, "m2", "web-2", "web", ready=False)]
    assert len(violations(removal(*lost))) == 1


@pytest.mark.parametrize(
    "explanation",
    [
        pytest.param([PodFact(90, "m2", "web-2", "web", ready=True)], id="another copy is ready"),
        pytest.param([WantedFact(99, "web", None)], id="the template is deleted"),
        pytest.param([WantedFact(99, "web", 0)], id="the template wants no replicas"),
        pytest.param(
            [
                PodFact(2, "m2", "web-2", "web", ready=True),
                FaultFact(98, "m2", "clock forward by 600 s"),
                PodFact(99, "m2", "web-2", "web", ready=False),
            ],
            id="a fault made the replacement not ready",
        ),
        pytest.param([GapFact(100.5, "m2")], id="the watch of a member has a gap"),
    ],
)
def test_removal_is_accepted_when_something_explains_it(explanation: list[Fact]) -> None:
    assert violations(removal(*explanation)) == []


def test_removal_is_accepted_when_the_member_itself_replaces_the_pod() -> None:
    assert violations(removal(desired=1)) == []


def test_removal_is_accepted_when_the_replacement_was_received_a_moment_later() -> None:
    assert violations([*removal(), PodFact(101.5, "m2", "web-2", "web", ready=True)]) == []


def test_too_many_moves_at_once_are_found() -> None:
    history = [budget(maxConcurrent=1), MoveFact(1, move("a")), MoveFact(2, move("b"))]
    assert violations(history) == ["2.0: budget careful allows 1 moves at once, in progress are a, b"]


def test_moves_one_after_the_other_are_accepted() -> None:
    ended = MoveFact(2, move("a", outcome="Done"))
    assert violations([budget(maxConcurrent=1), MoveFact(1, move("a")), ended, MoveFact(3, move("b"))]) == []


def test_moves_of_another_budget_are_not_counted() -> None:
    assert violations([budget(maxConcurrent=1), MoveFact(1, move("a")), MoveFact(2, move("b", budget="other"))]) == []


def test_too_many_moves_in_a_period_are_found() -> None:
    moves = [MoveFact(n, move(f"move{n}", started=at, outcome="Done")) for n, at in enumerate((0, 10, 19))]
    (found, *_) = violations([budget(rate={"disruptions": 2, "period": "20s"}), *moves])
    assert "budget careful allows 2 moves in 0:00:20; 3 began" in found


def test_moves_in_different_periods_are_accepted() -> None:
    moves = [MoveFact(n, move(f"move{n}", started=at, outcome="Done")) for n, at in enumerate((0, 10, 20))]
    assert violations([budget(rate={"disruptions": 2, "period": "20s"}), *moves]) == []


def test_periods_are_not_compared_after_the_clock_of_the_control_plane_went_back() -> None:
    moves = [MoveFact(n, move(f"move{n}", started=1, outcome="Done")) for n in range(3)]
    back = FaultFact(1, PLANE, CLOCK_BACK)
    assert violations([budget(rate={"disruptions": 2, "period": "20s"}), back, *moves]) == []
