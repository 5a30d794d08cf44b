"""Patterns are parsed into a tree, or refused with the message of Go."""

import pytest

from trimtab.api.schema.go_regexp_syntax import Char, Choice, InvalidPattern, RegexpGroup, Repeat, parse_go_pattern


def test_items_of_a_sequence_are_parsed_in_order() -> None:
    first, second, third = parse_go_pattern("a(b|c)d*")
    assert isinstance(first, Char)
    assert isinstance(second, RegexpGroup | Choice)
    assert isinstance(third, Repeat)


def test_category_of_unicode_accepts_its_characters() -> None:
    (letter,) = parse_go_pattern(r"\p{L}")
    assert isinstance(letter, Char)
    assert [letter.accepts(char) for char in "aé1 "] == [True, True, False, False]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("(", "missing closing )"), ("a{1001}", "invalid repeat count"), ("*", "missing argument"), ("(?<=a)", "invalid")],
)
def test_pattern_that_go_refuses_is_invalid(pattern: str, message: str) -> None:
    with pytest.raises(InvalidPattern, match=message.replace(")", r"\)")):
        parse_go_pattern(pattern)
