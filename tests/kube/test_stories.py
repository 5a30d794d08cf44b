"""Stories of propagation and moves pass on a real host and real members in real time."""

from pathlib import Path

import pytest
from kube.fleet import RealFleet
from kube.real_story_runner import RealStoryFleet, shorten_story

from trimtab.stories.report import StoryFailed, clock_text
from trimtab.stories.story import read_story

STORIES = Path(__file__).parents[2] / "stories"
SHORTENED_BY = {
    "static-weight": 1,
    "overrides": 1,
    "dependencies": 1,
    "conflict-with-an-existing-object": 10,
    "control-plane-killed-during-rollout": 12,
    "001-three-groups-in-order": 1,
    "001-story-2-a-backup-for-the-primary": 30,
    "002-two-failovers-in-a-row": 15,
    "000-story-1-back-to-two-clusters": 12,
    "000-story-2-spread-again-when-capacity-is-free": 6,
    "rebalance-with-no-allowed-disruption": 4,
    "rebalance-within-a-rate": 30,
    "drain-a-cluster": 4,
}
"""The divisor of every duration in the story, including settings and objects; 1 keeps them."""


@pytest.mark.parametrize("name", SHORTENED_BY)
def test_story(fleet: RealFleet, name: str) -> None:
    lines: list[str] = []
    story = shorten_story(read_story(STORIES / f"{name}.yaml"), SHORTENED_BY[name])
    try:
        fleet.loop.run(RealStoryFleet(fleet, story).run(lambda at, text: lines.append(f"{clock_text(at)}  {text}")))
    except StoryFailed as failed:
        pytest.fail("\n".join([*lines, f"FAILED at {clock_text(failed.at)}: {failed.message}", *failed.facts]))
