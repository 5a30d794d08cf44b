from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.duration import DURATION, duration, is_duration, told
from trimtab.api.schema.go_regexp import go_pattern


@pytest.mark.parametrize("text", ["90s", "1h30m", "2d", "0.5h", "250ms"])
def test_a_length_of_time_is_written_as_in_our_kinds(text: str) -> None:
    assert is_duration(text)


@pytest.mark.parametrize("text", ["", "0s", "soon", "1h and a bit", "1y", "h", "1h\n"])
def test_what_is_no_length_of_time_or_has_none_is_not_taken_for_one(text: str) -> None:
    assert not is_duration(text)


@given(st.integers(1, 10**9))
def test_what_is_told_to_people_can_be_written_back(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert is_duration(told(length))
    assert abs(duration(told(length)) - length) < timedelta(milliseconds=1)


def test_no_time_at_all_is_told_too() -> None:
    assert told(timedelta()) == "0s"
    assert told(timedelta(minutes=90)) == "1h30m"


PARTS = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2})?(ms|s|m|h|d)", fullmatch=True)


@given(st.one_of(st.lists(PARTS, max_size=3).map("".join), st.text("0159smhd", max_size=12), st.text(max_size=6)))
def test_a_schema_says_the_same_in_its_own_words(text: str) -> None:
    """Down to a hundredth of a millisecond: what is shorter than a clock can tell is none for us alone."""
    fits = go_pattern(DURATION)
    assert fits is not None
    assert fits(text) == is_duration(text)
