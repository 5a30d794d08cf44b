from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import InputError
from trimtab.stories.story import parse_seconds, parse_story, read_story

SMALL: dict[str, Any] = {"name": "a story", "expect": [{"that": "exists(Cluster/member1)"}]}


def test_the_default_fleet_has_three_members() -> None:
    assert [member.name for member in parse_story(SMALL).plan.members] == ["member1", "member2", "member3"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expect": []}, "no expectations"),
        ({"expect": [{"that": "a", "never": "b"}]}, "exactly one"),
        ({"expect": [{"always": "a", "within": "5s"}]}, "within"),
        ({"expect": [{"that": "a", "from": "nowhere"}]}, "duration"),
        ({"profile": "other"}, "profile"),
        ({"settings": {"foo": 1}}, "there is no setting .foo."),
        ({"settings": {"evacuate-after-seconds": "soon"}}, "settings.evacuate-after-seconds: is 'soon': expected int"),
        ({"settings": {"evacuate-after-seconds": -5}}, "expected a number from 0 to "),
        ({"settings": {"failover": 1}}, "expected bool"),
        ({"fleet": {"members": []}}, "no members"),
        ({"timeline": [{"at": "1s", "after": "1s"}]}, "no more than one"),
        ({"timeline": [{"at": "soon"}]}, "duration"),
        ({"timeline": [{"when": "a =="}]}, "expected"),
        ({"timeline": [{"explode": "now"}]}, "explode"),
    ],
)
def test_invalid_story_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_story({**SMALL, **change})


def test_objects_are_read_from_files_next_to_the_story(tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text("kind: A\n---\nkind: B\n")
    (tmp_path / "story.yaml").write_text(
        "name: x\ntimeline:\n- apply: [objects.yaml, {kind: C}]\nexpect: [{that: exists(Cluster/member1)}]\n"
    )
    assert [obj["kind"] for obj in read_story(tmp_path / "story.yaml").timeline[0].apply] == ["A", "B", "C"]


@pytest.mark.parametrize(("text", "message"), [("a: b: c", "objects.yaml is not YAML"), (None, "cannot read")])
def test_unreadable_file_of_objects_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "objects.yaml").write_text(text)
    (tmp_path / "story.yaml").write_text(
        "name: x\ntimeline:\n- apply: objects.yaml\nexpect: [{that: exists(Cluster/member1)}]\n"
    )
    with pytest.raises(InputError, match=message):
        read_story(tmp_path / "story.yaml")


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("1h30m", 5400), (5, 5), ("250ms", 0.25), ("1d", 86400)])
def test_durations_are_parsed_to_seconds(text: Any, expected: float) -> None:
    assert parse_seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: x\nexpect: [{that: a}]\nsettings:\n  failoverr: true\n", "4: settings.failoverr: there is no setting"),
        ("name: x\ntimeline:\n- at: 1s\n- at: 2s\n  explode: now\n", "5: timeline[1].explode: there is no such field"),
        (
            "name: x\nfleet:\n  members:\n  - name: a\n    nodse: 3\ntimeline: []\n",
            "5: fleet.members[0].nodse: there is no such field",
        ),
        (
            "name: x\nfleet:\n  members:\n  - {name: a}\n  - {name: b, nodes: -1}\ntimeline: []\n",
            "5: fleet.members[1]: nodes of b is -1; it must be 0 to 10000",
        ),
        ("name: x\ntimeline:\n- at: 1s\n  fail:\n    app: a\n    how: oddly\n", "6: timeline[0].fail.how: is 'oddly'"),
        ("name: x\ntimeline:\n- scale: {object: a, replicas: many}\n", "3: timeline[0].scale.replicas: Expected `int`"),
        ("name: x\nexpect:\n- that: a\n  within: soon\n", "4: expect[0].within: 'soon' is not a duration"),
        ("name: x\ntimeline:\n- expect:\n  - that: a ==\n", "4: timeline[0].expect[0].that: "),
        ("name: x\nfleet:\n  members: []\nexpect: [{that: a}]\n", "2: fleet: the fleet has no members"),
        ("timeline: []\n", "1: Object missing required field `name`"),
    ],
)
def test_error_names_file_line_and_field(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "story.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_story(file)
    assert str(caught.value).startswith(f"{file}:{place}"), caught.value


def test_wrong_setting_names_the_similar_one() -> None:
    with pytest.raises(InputError, match=r"did you mean failover\?"):
        parse_story({**SMALL, "settings": {"failoverr": True}})
