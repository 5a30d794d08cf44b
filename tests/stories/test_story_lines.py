"""Lines of fields in YAML texts."""

import pytest

from trimtab.stories.story_lines import line_of

TEXT = """name: x
timeline:
- at: 1s
  fail:
    cluster: [a, b]
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 1),
        ("name", 1),
        ("timeline", 2),
        ("timeline[0]", 3),
        ("timeline[0].fail", 4),
        ("timeline[0].fail.cluster", 5),
        ("timeline[0].fail.cluster[1]", 5),
        ("timeline[0].missing", 3),
        ("timeline[7].fail", 2),
    ],
)
def test_line_is_that_of_the_field_or_of_its_last_parent(path: str, line: int) -> None:
    assert line_of(TEXT, path) == line


def test_text_that_is_not_yaml_or_empty_has_no_lines() -> None:
    assert line_of("a: b: c", "a") is None
    assert line_of("", "a") is None
