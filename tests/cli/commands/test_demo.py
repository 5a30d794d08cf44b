from datetime import UTC, datetime
from pathlib import Path

from trimtab.cli.commands.demo import Picture, Sight, allowances, serves
from trimtab.stories.story import read_story

STORY = read_story(Path(__file__).parents[3] / "stories" / "demo.yaml")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_only_headlines_of_the_story_are_told_and_only_changes_are_shown() -> None:
    lines: list[str] = []
    picture = Picture(STORY, lines.append)
    picture.tell(0, "apply Deployment/default/shop")
    assert lines == []
    picture.tell(0, STORY.timeline[0].say)
    assert lines[0] == f"\n{STORY.timeline[0].say}\n"
    assert lines[1].split() == ["time", "frankfurt", "virginia", "tokyo", "serving", "budget"]
    sight = Sight(("●●●", "○", "✗ dark"), "3 of 9", "a move is allowed")
    picture.show(7.5, sight)
    picture.show(8.0, sight)
    assert [line.split() for line in lines[2:]] == [
        ["00:07", "●●●", "○", "✗", "dark", "3", "of", "9", "a", "move", "is", "allowed"]
    ]


def test_a_replica_that_is_asked_to_end_serves_no_more() -> None:
    ready = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert serves(ready)
    assert not serves({**ready, "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    assert not serves({"metadata": {}})


def test_a_budget_is_told_in_words() -> None:
    told = list(
        allowances(
            [
                {"status": {"allowedNow": 1}},
                {"status": {"inFlight": [{}], "allowedNow": 0}},
                {"status": {"nextAllowedAt": "2030-01-01T00:00:05.000000Z"}},
                {},
            ],
            NOW,
        )
    )
    assert told == ["a move is allowed", "a move is going on", "spent, wait", "no move allowed"]
