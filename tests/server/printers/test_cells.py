"""Cell texts of tables."""

from datetime import UTC, datetime, timedelta

import pytest

from trimtab.server.printers.cells import format_age, format_duration, format_selector, parse_headers

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
        (-1, "0s"),
        (-5, "<invalid>"),
    ],
)
def test_durations_have_at_most_two_units(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


def test_missing_timestamp_has_unknown_age() -> None:
    assert format_age(None, NOON) == "<unknown>"
    assert format_age("2030-01-01T11:59:00Z", NOON) == "60s"


def test_selector_is_formatted_in_kubectl_syntax() -> None:
    rules = [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
    ]
    assert (
        format_selector({"matchLabels": {"app": "web"}, "matchExpressions": rules}) == "app=web,new,!old,tier in (a,b)"
    )
    assert format_selector({}) == "<none>"


def test_header_shorthand_sets_type_format_and_priority() -> None:
    name, count, wide = parse_headers("Name|Count#|Node*")
    assert (name.type, name.format, name.priority) == ("string", "name", 0)
    assert (count.name, count.type) == ("Count", "integer")
    assert (wide.name, wide.priority) == ("Node", 1)
    assert parse_headers("Last Seen-|Type")[0].format == ""
