"""Caches keyed by texts of clients."""

import contextlib
import gc
import tracemalloc
from collections.abc import Callable

import pytest

from trimtab.api import jsonpath, names, selectors
from trimtab.api.kinds.native import codec
from trimtab.api.schema import formats
from trimtab.api.text_cache import LONGEST_KEY, cache_short_texts
from trimtab.server.registry import selector_matching


def test_short_texts_are_computed_once_and_long_ones_each_time() -> None:
    computed: list[str] = []

    @cache_short_texts(2)
    def measure(text: str) -> int:
        computed.append(text)
        return len(text)

    long = "x" * (LONGEST_KEY + 1)
    for text in ("a", "a", long, long):
        assert measure(text) == len(text)
    assert computed == ["a", long, long]


def test_a_full_cache_begins_anew() -> None:
    computed: list[str] = []

    @cache_short_texts(2)
    def measure(text: str) -> int:
        computed.append(text)
        return len(text)

    for text in ("a", "b", "a", "c", "c", "a"):
        measure(text)
    assert computed == ["a", "b", "c", "a"]


def test_a_refused_text_is_refused_again() -> None:
    @cache_short_texts(2)
    def parse(text: str) -> int:
        return int(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="'x'"):
            parse("x")


@pytest.mark.parametrize(
    ("function", "start"),
    [
        (selectors.parse_selector, "a="),
        (names.qualified_name_faults, ""),
        (names.label_value_faults, ""),
        (formats.is_date_time, ""),
        (jsonpath.parse_path, "."),
        (selector_matching.required_name, "metadata.name="),
        (codec._read_time_cached, "2024-01-01T00:00:00."),
        (selector_matching._parse_labels, "a="),
    ],
)
def test_long_texts_of_clients_are_not_kept(function: Callable[[str], object], start: str) -> None:
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(40):
            with contextlib.suppress(Exception):  # many of these texts are refused
                function(f"{start}{'1' * 30_000}{number}Z")
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 400_000
    finally:
        tracemalloc.stop()
