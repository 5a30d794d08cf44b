"""Stories of propagation and of moves come true on a real host and real members, on the wall clock."""

from pathlib import Path

import pytest
from kube.fleet import RealFleet
from kube.real_story_runner import Troupe, shortened

from trimtab.stories.runner import Failed, clock_text
from trimtab.stories.story import read_story

STORIES = Path(__file__).parents[2] / "stories"
SHORTENED_BY = {
    "static-weight": 1,
    "overrides": 1,
    "dependencies": 1,
    "conflict-with-an-existing-object": 10,
    "killed-in-a-roll-out": 12,
    "001-three-groups-in-order": 1,
    "001-story-2-a-backup-for-the-primary": 30,
    "002-two-failovers-in-a-row": 15,
    "000-story-1-back-to-two-clusters": 12,
    "000-story-2-spread-again-when-there-is-room": 6,
    "rebalance-when-no-replica-can-be-spared": 4,
    "rebalance-within-a-rate": 30,
    "drain-a-cluster": 4,
}
"""By how much every length of time in the story is divided, settings and objects included; 1 is as it is written."""


@pytest.mark.parametrize("name", SHORTENED_BY)
def test_a_story(fleet: RealFleet, name: str) -> None:
    told: list[str] = []
    story = shortened(read_story(STORIES / f"{name}.yaml"), SHORTENED_BY[name])
    try:
        fleet.loop.do(Troupe(fleet, story).play(lambda at, text: told.append(f"{clock_text(at)}  {text}")))
    except Failed as failed:
        pytest.fail("\n".join([*told, f"FAILED at {clock_text(failed.at)}: {failed.expectation}", *failed.facts]))
