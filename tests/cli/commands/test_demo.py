from datetime import UTC, datetime
from pathlib import Path

from trimtab.cli.commands.demo import DemoOutput, DemoRow, budget_states, is_serving
from trimtab.stories.story import read_story

STORY = read_story(Path(__file__).parents[3] / "stories" / "demo.yaml")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_only_headings_and_changes_are_printed() -> None:
    lines: list[str] = []
    output = DemoOutput(STORY, lines.append)
    output.write_heading(0, "apply Deployment/default/shop")
    assert lines == []
    output.write_heading(0, STORY.timeline[0].say)
    assert lines[0] == f"\n{STORY.timeline[0].say}\n"
    assert lines[1].split() == ["time", "frankfurt", "virginia", "tokyo", "serving", "budget"]
    row = DemoRow(("●●●", "○", "✗"), "3 of 9", "move allowed")
    output.write_row(7.5, row)
    output.write_row(8.0, row)
    assert [line.split() for line in lines[2:]] == [["00:07", "●●●", "○", "✗", "3", "of", "9", "move", "allowed"]]


def test_terminating_replica_is_not_serving() -> None:
    ready = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert is_serving(ready)
    assert not is_serving({**ready, "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    assert not is_serving({"metadata": {}})


def test_budget_status_is_shown_in_words() -> None:
    states = list(
        budget_states(
            [
                {"status": {"allowedNow": 1}},
                {"status": {"inFlight": [{}], "allowedNow": 0}},
                {"status": {"nextAllowedAt": "2030-01-01T00:00:05.000000Z"}},
                {},
            ],
            NOW,
        )
    )
    assert states == ["move allowed", "move in progress", "rate used up", "no move allowed"]
