"""Every story in `stories/` comes true, on the virtual clock."""

from pathlib import Path
from typing import Any

import pytest

from trimtab.clock import run_virtually
from trimtab.stories.runner import Failed, clock_text, play_in_memory
from trimtab.stories.story import Story, read_story, seconds

STORIES = sorted((Path(__file__).parents[2] / "stories").glob("*.yaml"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_it_comes_true(path: Path) -> None:
    told: list[str] = []
    try:
        playing = play_in_memory(read_story(path), lambda at, text: told.append(f"{clock_text(at)}  {text}"))
        run_virtually(playing, patience=300)
    except Failed as failed:
        lines = [*told, f"FAILED at {clock_text(failed.at)}: {failed.expectation}", *failed.facts]
        pytest.fail("\n".join(lines), pytrace=False)


def applied(story: Story) -> list[dict[str, Any]]:
    return [obj for step in story.timeline for obj in step.apply or ()]


def is_voluntary(story: Story) -> bool:
    """Whether somebody asks for a rebalance, a way home or a drain in it."""
    asked = any(obj["kind"] == "WorkloadRebalancer" for obj in applied(story))
    placements = [(obj.get("spec") or {}).get("placement") or {} for obj in applied(story)]
    drained = any("trimtab.dev/drain" in str(step.patch.body) for step in story.timeline if step.patch is not None)
    return asked or drained or any("failback" in placement for placement in placements)


VOLUNTARY = [path for path in STORIES if is_voluntary(read_story(path))]


@pytest.mark.parametrize("path", VOLUNTARY, ids=lambda path: path.stem)
def test_where_something_moves_by_wish_the_service_is_watched_every_second(path: Path) -> None:
    story = read_story(path)
    watched = [one for one in story.expect if one.never and ("< " in one.never or "missing(" in one.never)]
    assert watched, "no expectation says that ready replicas never drop below what is allowed"
    assert seconds(story.every) <= 1


NAMED = (
    *(f"000-story-{n}-" for n in (1, 2, 3, 4)),
    *(f"000-ttl-{n}-" for n in (1, 2, 3)),
    *("000-an-order-only-edit", "000-a-lazy-policy", "000-a-cluster-scoped-resource"),
    *("001-story-1-", "001-story-2-", "001-three-groups-in-order", "001-groups-in-a-cluster-wide-policy"),
    *("001-duplicated-copies-fail-over", "001-divided-shares-fail-over", "001-a-policy-without-groups"),
    *("001-every-group-is-exhausted", "001-two-groups-share-a-cluster"),
    *("002-story-1-", "002-story-2-", "002-faq-", "002-an-application-that-flaps", "002-two-failovers-in-a-row"),
    *("recovered-in-the-middle-of-an-eviction", "storm-thirty-of-forty"),
)


@pytest.mark.parametrize("name", NAMED)
def test_every_user_story_and_corner_case_of_the_documents_is_told(name: str) -> None:
    assert [path.stem for path in STORIES if path.stem.startswith(name)]
