"""Formats accept what kube-apiserver accepts (each pair was checked against a real one)."""

import pytest

from trimtab.api.field_errors import format_go_number, format_value
from trimtab.api.schema.formats import FORMATS


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2024-01-01T00:00:00Z", "2024-01-01t00:00:00.123+02:00"],
            ["2024-01-01T00:00:00", "2024-02-30T00:00:00Z"],
        ),
        ("date", ["2024-01-01"], ["2024-1-1", "2024-02-30"]),
        ("duration", ["1h30m", "5 days", "P1D"], ["", "1 foo"]),
        ("ipv4", ["1.2.3.4", "01.2.3.4"], ["1.2.3", "::1", "1.2.3.256"]),
        ("ipv6", ["::1"], ["1.2.3.4", "fe80::1%eth0"]),
        ("cidr", ["10.0.0.1/8", "::/0"], ["10.0.0.0"]),
        ("uri", ["http://a", "/a", "mailto:x@y"], ["a", ""]),
        ("uuid", ["00000000-0000-0000-0000-000000000000"], ["0000"]),
        ("mac", ["01:02:03:04:05:06", "0102.0304.0506"], ["0102"]),
        ("hostname", ["a", "a-", "example.com"], ["a.b", "-a", "a_b"]),
        ("email", ["a@b", '"A" <a@b.c>'], ["a", "a b@c"]),
        ("byte", ["YQ=="], ["", "!", "\u202e"]),
    ],
)
def test_format_accepts_valid_and_rejects_invalid_values(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not FORMATS[name](text)] == []
    assert [text for text in bad if FORMATS[name](text)] == []


@pytest.mark.parametrize(
    ("number", "text"),
    [(3, "3"), (3.0, "3"), (2.5, "2.5"), (1e10, "1e+10"), (1234567.0, "1.234567e+06"), (10**12, str(10**12))],
)
def test_numbers_are_formatted_as_in_go(number: float, text: str) -> None:
    assert format_go_number(number) == text


def test_values_are_formatted_as_json() -> None:
    assert format_value({"a": [1, True, None]}) == '{"a":[1,true,null]}'
