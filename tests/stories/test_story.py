from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import InputFault
from trimtab.stories.story import parse_story, read_story, seconds

SMALL: dict[str, Any] = {"name": "a story", "expect": [{"that": "exists(Cluster/member1)"}]}


def test_the_default_fleet_has_three_members() -> None:
    assert [member.name for member in parse_story(SMALL).plan.members] == ["member1", "member2", "member3"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"expect": []}, "expects nothing"),
        ({"expect": [{"that": "a", "never": "b"}]}, "exactly one"),
        ({"expect": [{"always": "a", "within": "5s"}]}, "within"),
        ({"expect": [{"that": "a", "from": "nowhere"}]}, "length of time"),
        ({"profile": "other"}, "profile"),
        ({"fleet": {"members": []}}, "no members"),
        ({"timeline": [{"at": "1s", "after": "1s"}]}, "more than one"),
        ({"timeline": [{"at": "soon"}]}, "length of time"),
        ({"timeline": [{"when": "a =="}]}, "expected"),
        ({"timeline": [{"explode": "now"}]}, "explode"),
    ],
)
def test_what_is_wrong_with_a_story_is_said_before_it_begins(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputFault, match=complaint):
        parse_story({**SMALL, **change})


def test_objects_may_stand_in_a_file_beside_the_story(tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text("kind: A\n---\nkind: B\n")
    (tmp_path / "story.yaml").write_text(
        "name: x\ntimeline:\n- apply: [objects.yaml, {kind: C}]\nexpect: [{that: exists(Cluster/member1)}]\n"
    )
    assert [obj["kind"] for obj in read_story(tmp_path / "story.yaml").timeline[0].apply] == ["A", "B", "C"]


@pytest.mark.parametrize(("text", "complaint"), [("a: b: c", "objects.yaml is not YAML"), (None, "cannot read")])
def test_a_file_of_objects_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, complaint: str) -> None:
    if text is not None:
        (tmp_path / "objects.yaml").write_text(text)
    (tmp_path / "story.yaml").write_text(
        "name: x\ntimeline:\n- apply: objects.yaml\nexpect: [{that: exists(Cluster/member1)}]\n"
    )
    with pytest.raises(InputFault, match=complaint):
        read_story(tmp_path / "story.yaml")


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("1h30m", 5400), (5, 5), ("250ms", 0.25), ("1d", 86400)])
def test_lengths_of_time(text: Any, expected: float) -> None:
    assert seconds(text) == expected
