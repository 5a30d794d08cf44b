"""A step lasts without the steps within it; plugins are a part of their step."""

import pytest

from trimtab.runtime.observers.step_times import FinishedStep, StepTimes


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_steps_exclude_steps_and_include_plugins() -> None:
    clock, done = Clock(), list[FinishedStep]()
    times = StepTimes(done.append, clock)
    with times.measure("Select"):
        clock.time += 1
        with times.measure("Score") as score:
            with times.measure("Score", "ClusterLocality"):
                clock.time += 2
            clock.time += 4
            score.succeeded = False
        clock.time += 8
    with times.measure("AssignReplicas"):
        clock.time += 16
    assert done == [
        ("Score", "ClusterLocality", 2, True),
        ("Score", "", 6, False),
        ("Select", "", 9, True),
        ("AssignReplicas", "", 16, True),
    ]


def test_a_step_that_raises_is_not_reported_and_does_not_count_for_the_next() -> None:
    clock, done = Clock(), list[FinishedStep]()
    times = StepTimes(done.append, clock)
    with pytest.raises(KeyError), times.measure("Select"), times.measure("Score"):
        clock.time += 1
        raise KeyError
    with times.measure("Select"):
        clock.time += 2
    assert done == [("Select", "", 2, True)]
