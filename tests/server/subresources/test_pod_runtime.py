from datetime import UTC, datetime, timedelta

import pytest

from trimtab.errors import BadRequest
from trimtab.server.subresources.pod_runtime import LogLine, select_lines

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LINES = [LogLine(NOW - timedelta(seconds=20 - 10 * number), text) for number, text in enumerate("abc")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "a\nb\nc\n"),
        ({"tailLines": "2"}, "b\nc\n"),
        ({"tailLines": "0"}, ""),
        ({"tailLines": "9" * 5000}, "a\nb\nc\n"),
        ({"sinceSeconds": "15"}, "b\nc\n"),
        ({"sinceTime": "2030-01-01T12:00:00Z"}, "c\n"),
        ({"limitBytes": "3"}, "a\nb"),
        ({"timestamps": "true", "tailLines": "1"}, "2030-01-01T12:00:00.000000000Z c\n"),
    ],
)
def test_a_client_selects_lines_by_number_time_and_size(query: dict[str, str], expected: str) -> None:
    assert select_lines(LINES, query, NOW) == expected


def test_a_limit_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadRequest, match="must be a non-negative number"):
        select_lines(LINES, {"tailLines": "-1"}, NOW)
    with pytest.raises(BadRequest, match="sinceTime must be a time"):
        select_lines(LINES, {"sinceTime": "yesterday"}, NOW)
