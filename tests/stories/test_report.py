"""The text that stories print."""

from typing import Any

import pytest

from trimtab.stories.report import clock_text, name_of, placement_text, short_text


def binding(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": spec, "status": status or {}}


def test_placement_shows_targets_holds_and_evictions() -> None:
    holds = {"holds": [{"cluster": "m1", "replicas": 2}]}
    text = placement_text(
        binding(holds, clusters=[{"name": "m2", "replicas": 4}], gracefulEvictionTasks=[{"fromCluster": "m3"}])
    )
    assert text == "is placed on m2=4, held in m1=2, evicting from m3"
    assert placement_text(binding()) == "is not placed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "missing"),
        ([1, 2], "[1, 2]"),
        (list(range(9)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ({"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}, "Pod/b/a"),
        ("x" * 201, "x" * 200 + "..."),
    ],
)
def test_values_are_shortened_to_one_line(value: Any, text: str) -> None:
    assert short_text(value) == text


def test_object_without_namespace_has_two_name_parts() -> None:
    assert name_of({"kind": "Cluster", "metadata": {"name": "m1"}}) == "Cluster/m1"


def test_time_is_in_hours_minutes_and_seconds() -> None:
    assert clock_text(3 * 3600 + 25 * 60 + 7.9) == "03:25:07"
