"""Selectors match as kubectl users expect."""

import pytest

from trimtab.api.selectors import InvalidSelector, LabelSelector, LabelSelectorRequirement, parse_selector


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=db", True),
        ("app in (web, api)", True),
        ("app notin (web)", False),
        ("app", True),
        ("!app", False),
        ("!missing", True),
        ("size>2", True),
        ("size<3", False),
    ],
)
def test_query_matches_labels(text, matches) -> None:
    assert parse_selector(text).matches({"app": "web", "size": "3"}) is matches


@pytest.mark.parametrize("text", ["a in web", "=x", "a=b=c", "a in (b", ",,"])
def test_invalid_query_is_rejected(text) -> None:
    with pytest.raises(InvalidSelector):
        parse_selector(text)


def test_not_in_matches_objects_without_the_label() -> None:
    rule = LabelSelectorRequirement(key="zone", operator="NotIn", values=("a",))
    assert LabelSelector(match_expressions=(rule,)).matches({})
