"""Every story in `stories/` passes on virtual time."""

from pathlib import Path
from typing import Any

import pytest

from trimtab.clock import run_virtually
from trimtab.stories.report import StoryFailed, clock_text
from trimtab.stories.runner import run_in_memory
from trimtab.stories.story import Story, parse_seconds, read_story

FOLDER = Path(__file__).parents[2] / "stories"
STORIES = [*sorted(FOLDER.glob("*.yaml")), *sorted(FOLDER.glob("scale/*.yaml"))]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story_passes(path: Path) -> None:
    output: list[str] = []
    try:
        run = run_in_memory(read_story(path), lambda at, text: output.append(f"{clock_text(at)}  {text}"))
        run_virtually(run, timeout=3600)
    except StoryFailed as failed:
        lines = [*output, f"FAILED at {clock_text(failed.at)}: {failed.message}", *failed.facts]
        pytest.fail("\n".join(lines), pytrace=False)


def applied_objects(story: Story) -> list[dict[str, Any]]:
    return [obj for step in story.timeline for obj in step.apply or ()]


def is_voluntary(story: Story) -> bool:
    """Whether the story has a rebalance, a failback or a drain."""
    rebalanced = any(obj["kind"] == "WorkloadRebalancer" for obj in applied_objects(story))
    placements = [(obj.get("spec") or {}).get("placement") or {} for obj in applied_objects(story)]
    drained = any("trimtab.dev/drain" in str(step.patch.body) for step in story.timeline if step.patch is not None)
    return rebalanced or drained or any("failback" in placement for placement in placements)


VOLUNTARY = [path for path in STORIES if is_voluntary(read_story(path))]


@pytest.mark.parametrize("path", VOLUNTARY, ids=lambda path: path.stem)
def test_story_with_voluntary_moves_checks_availability_every_second(path: Path) -> None:
    story = read_story(path)
    checks = [one for one in story.expect if one.never and ("< " in one.never or "missing(" in one.never)]
    assert checks, "the story has no expectation about the minimum of ready replicas"
    assert parse_seconds(story.every) <= 1


REQUIRED = (
    *(f"000-story-{n}-" for n in (1, 2, 3, 4)),
    *(f"000-ttl-{n}-" for n in (1, 2, 3)),
    *("000-reordered-workload-list", "000-a-lazy-policy", "000-a-cluster-scoped-resource"),
    *("001-story-1-", "001-story-2-", "001-three-groups-in-order", "001-groups-in-a-cluster-wide-policy"),
    *("001-duplicated-workload-fails-over", "001-divided-workload-fails-over", "001-a-policy-without-groups"),
    *("001-every-group-is-exhausted", "001-two-groups-share-a-cluster"),
    *("002-story-1-", "002-story-2-", "002-faq-", "002-flapping-application", "002-two-failovers-in-a-row"),
    *("cluster-recovers-during-eviction", "thirty-of-forty-clusters-fail"),
)


@pytest.mark.parametrize("name", REQUIRED)
def test_user_stories_and_corner_cases_have_a_story(name: str) -> None:
    assert [path.stem for path in STORIES if path.stem.startswith(name)]
