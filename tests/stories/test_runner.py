"""Runs of stories: what is printed, and how they fail."""

from typing import Any

import pytest

from trimtab.clock import run_virtually
from trimtab.stories.report import StoryFailed
from trimtab.stories.runner import run_in_memory
from trimtab.stories.story import parse_story

FLEET = {"members": [{"name": "one", "nodes": 1}]}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def run(timeline: list[dict[str, Any]], *expect: dict[str, Any]) -> list[str]:
    """The lines of the story."""
    steps = [{**step, "apply": step.get("apply", [])} for step in timeline]
    story = parse_story({"name": "x", "fleet": FLEET, "timeline": steps, "expect": list(expect)})
    lines: list[str] = []
    run_virtually(run_in_memory(story, lambda at, text: lines.append(f"{at:.0f} {text}")))
    return lines


def failure(timeline: list[dict[str, Any]], *expect: dict[str, Any]) -> StoryFailed:
    with pytest.raises(StoryFailed) as caught:
        run(timeline, *expect)
    return caught.value


def test_actions_and_met_expectations_are_printed_with_their_time() -> None:
    lines = run([{"apply": [CONFIG]}, {"at": "5s", "partition": "one"}], {"that": "exists(ConfigMap/a)"})
    assert "0 apply ConfigMap/a" in lines
    assert "5 one is disconnected" in lines
    assert "5 ✓ exists(ConfigMap/a)" in lines


def test_failed_expectation_shows_the_values_and_the_reason() -> None:
    failed = failure([{"apply": [CONFIG]}], {"that": 'ConfigMap/a.data.k == "w"', "within": "3s", "because": "of w"})
    assert (failed.message, failed.at) == ('ConfigMap/a.data.k == "w"', 3)
    assert failed.facts[:3] == [
        "ConfigMap/a.data.k is v",
        "waited from 00:00:00 to 00:00:03",
        "reason for the expectation: of w",
    ]
    assert "state:" in failed.facts


def test_never_fails_at_the_first_check_at_which_it_is_true() -> None:
    failed = failure([{"at": "4s", "apply": [CONFIG]}, {"wait": "9s"}], {"never": "exists(ConfigMap/a)"})
    assert (str(failed), failed.at) == ("never exists(ConfigMap/a)", 4)


def test_step_whose_condition_does_not_become_true_fails_the_story() -> None:
    failed = failure([{"when": "exists(ConfigMap/b)", "timeout": "7s"}])
    assert failed.message == "step 1 did not start: its condition did not become true: exists(ConfigMap/b)"
    assert failed.at == 7


def test_step_that_the_api_refuses_fails_the_story() -> None:
    failed = failure([{}, {"delete": "ConfigMap/b"}], {"always": "exists(Cluster/one)"})
    assert failed.message == 'step 2 could not be applied: configmaps "b" not found'


def test_step_with_an_unknown_member_fails_with_its_number_and_the_members() -> None:
    failed = failure([{"fail": {"cluster": "two"}}], {"always": "exists(Cluster/one)"})
    assert failed.message.startswith("step 1 could not be applied: there is no member two; members: ")
