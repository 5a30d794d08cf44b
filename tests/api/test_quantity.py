"""Quantities have the same meaning as in Kubernetes."""

import tracemalloc

import pytest

from trimtab.api.quantity import (
    InvalidQuantity,
    add_quantities,
    canonical_form,
    int_value,
    is_negative,
    milli_value,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("1500m", 2),
        ("1Gi", 1 << 30),
        ("0.5Ki", 512),
        ("1e3", 1000),
        ("100n", 1),
        ("-1500m", -1),
        (3, 3),
        ("9E", 9 * 10**18),
        ("10E", (1 << 63) - 1),
    ],
)
def test_int_value_is_rounded_up(text, expected) -> None:
    assert int_value(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("1", 1000), ("250m", 250), ("0.0001", 1), ("2k", 2_000_000)])
def test_milli_value_is_rounded_up(text, expected) -> None:
    assert milli_value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1000Ki", "1000Ki"),
        ("1000k", "1M"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0.5Gi", "512Mi"),
        (2, "2"),
    ],
)
def test_canonical_form_keeps_the_suffix_family(text, expected) -> None:
    assert canonical_form(text) == expected


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1ki", "1 Gi", "e3", "1e9999999"])
def test_invalid_quantities_are_rejected(text) -> None:
    with pytest.raises(InvalidQuantity):
        int_value(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("-1", True), ("-100m", True), ("-1n", True), ("-0", False), ("1e-3", False), (0, False)]
)
def test_only_amounts_below_zero_are_negative(text, expected) -> None:
    assert is_negative(text) is expected


def test_sum_has_the_suffix_family_of_its_first_quantity() -> None:
    assert add_quantities(["512Mi", "512Mi"]) == "1Gi"
    assert add_quantities(["500m", "1"]) == "1500m"


def test_long_quantities_are_not_kept() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1000):
            text = f"{number}{'1' * 900}"
            assert int_value(text) == milli_value(text) == (1 << 63) - 1
            assert canonical_form(text) == text.lstrip("0")
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()
