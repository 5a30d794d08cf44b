from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.duration import DURATION_PATTERN, format_timedelta, is_duration, parse_duration
from trimtab.api.schema.go_regexp import go_matcher


@pytest.mark.parametrize("text", ["90s", "1h30m", "2d", "0.5h", "250ms"])
def test_valid_durations_are_accepted(text: str) -> None:
    assert is_duration(text)


@pytest.mark.parametrize("text", ["", "0s", "soon", "1h and a bit", "1y", "h", "1h\n"])
def test_invalid_and_zero_durations_are_rejected(text: str) -> None:
    assert not is_duration(text)


@given(st.integers(1, 10**9))
def test_formatted_duration_parses_to_the_same_duration(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert is_duration(format_timedelta(length))
    assert abs(parse_duration(format_timedelta(length)) - length) < timedelta(milliseconds=1)


def test_durations_are_formatted_with_units() -> None:
    assert format_timedelta(timedelta()) == "0s"
    assert format_timedelta(timedelta(minutes=90)) == "1h30m"


PARTS = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2})?(ms|s|m|h|d)", fullmatch=True)


@given(st.one_of(st.lists(PARTS, max_size=3).map("".join), st.text("0159smhd", max_size=12), st.text(max_size=6)))
def test_schema_pattern_accepts_the_same_texts_as_is_duration(text: str) -> None:
    """Only down to a hundredth of a millisecond: a timedelta rounds shorter durations to zero, the pattern does not."""
    matches = go_matcher(DURATION_PATTERN)
    assert matches is not None
    assert matches(text) == is_duration(text)
