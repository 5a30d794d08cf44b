"""Long, maliciously crafted texts are parsed without quadratic or exponential work.

The texts are so long that quadratic work takes minutes of CPU time, while linear work takes a fraction of a second.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from trimtab.api.duration import parse_duration
from trimtab.api.names import label_value_faults, qualified_name_faults, subdomain_faults
from trimtab.api.quantity import InvalidQuantity, int_value, milli_value, parse_quantity
from trimtab.api.schema.formats import FORMATS
from trimtab.api.schema.go_regexp import go_matcher, reset_match_steps
from trimtab.api.selectors import InvalidSelector, parse_selector
from watchdog import cpu_watchdog

LENGTH = 200_000
CRAFTED = ["1" * LENGTH + "!", "1a" * LENGTH + "!", "a." * LENGTH + "!", " " * LENGTH + "!!", "a=" + " " * LENGTH + "!"]
PATTERNS = [
    "^(a+)+$",
    "^(a|a)*$",
    r"^(\w+\s?)*$",
    "a*a*a*a*a*b",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
]


@pytest.fixture(autouse=True)
def _stop_runaway_parsing() -> Iterator[None]:
    reset_match_steps()  # searches of other tests share the limit
    with cpu_watchdog():
        yield


@pytest.mark.parametrize("text", CRAFTED)
def test_formats_and_names_are_checked_in_linear_time(text: str) -> None:
    for fits in FORMATS.values():
        fits(text)
    for faults in (label_value_faults, qualified_name_faults, subdomain_faults):
        assert faults(text)


@pytest.mark.parametrize("text", CRAFTED)
def test_selectors_are_parsed_in_linear_time(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_selector(text)


@pytest.mark.parametrize("text", [*CRAFTED, "9" * LENGTH, "9" * LENGTH + "Gi", "0." + "1" * LENGTH, "\u0663"])
def test_long_or_invalid_quantity_is_rejected_in_linear_time(text: str) -> None:
    for read in (parse_quantity, int_value, milli_value):
        with pytest.raises(InvalidQuantity):
            read(text)


def test_excessive_duration_is_capped_at_a_century() -> None:
    assert parse_duration("9" * LENGTH + "d") == parse_duration("999999999999d") == timedelta(days=36500)
    assert parse_duration("1" * LENGTH) == timedelta()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_of_users_are_matched_in_linear_time(pattern: str) -> None:
    matches = go_matcher(pattern)
    assert matches is not None
    assert not matches("a" * LENGTH + "!")
