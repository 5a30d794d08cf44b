"""The JSON Schema of stories accepts every story of ours and refuses what the reader refuses."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from trimtab.stories.json_schema import story_schema
from trimtab.stories.steps import APP_FAILURES
from trimtab.stories.story import APP_FAILURE_NAMES

ROOT = Path(__file__).parents[2]
STORIES = [*sorted((ROOT / "stories").glob("*.yaml")), *sorted((ROOT / "stories" / "scale").glob("*.yaml"))]
VALIDATOR = jsonschema_rs.validator_for(story_schema())
SMALL: dict[str, Any] = {"name": "x", "expect": [{"that": "a"}]}


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_every_story_is_accepted(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "change",
    [
        {"nme": "y"},
        {"profile": "other"},
        {"settings": {"nope": 1}},
        {"fleet": "unknown"},
        {"timeline": [{"explode": 1}]},
        {"timeline": [{"at": "soon"}]},
        {"timeline": [{"fail": {"app": "a", "how": "oddly"}}]},
        {"expect": [{"that": "a", "within": "x"}]},
    ],
)
def test_wrong_stories_are_refused(change: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(SMALL)
    assert not VALIDATOR.is_valid({**SMALL, **change})


def test_stored_schema_is_current() -> None:
    assert json.loads((ROOT / "docs" / "reference" / "story.schema.json").read_text()) == story_schema()


def test_failures_of_apps_are_those_that_steps_know() -> None:
    assert tuple(APP_FAILURES) == APP_FAILURE_NAMES
