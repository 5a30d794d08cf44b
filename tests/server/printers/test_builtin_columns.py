"""What people read in tables."""

from datetime import UTC, datetime, timedelta

import pytest

from trimtab.server.printers.builtin_columns import age, duration, pod_status, selector_text

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
def test_durations_have_two_units_at_most(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_an_age_that_nobody_knows_is_unknown() -> None:
    assert age(None, NOON) == "<unknown>"
    assert age("2030-01-01T11:59:00Z", NOON) == "60s"


def test_selectors_are_written_as_people_write_them() -> None:
    rules = [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
    ]
    assert selector_text({"matchLabels": {"app": "web"}, "matchExpressions": rules}) == "app=web,new,!old,tier in (a,b)"
    assert selector_text({}) == "<none>"


@pytest.mark.parametrize(
    ("status", "deleted", "text"),
    [
        ({"phase": "Running"}, False, "Running"),
        ({"phase": "Running"}, True, "Terminating"),
        ({"phase": "Succeeded"}, True, "Succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, False, "Evicted"),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePull"}}}]},
            False,
            "ImagePull",
        ),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}, False, "ExitCode:2"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}, False, "Init:0/0"),
    ],
)
def test_the_status_of_a_pod_names_what_matters_most(status: dict, deleted: bool, text: str) -> None:
    metadata = {"name": "p"} | ({"deletionTimestamp": "2030-01-01T00:00:00Z"} if deleted else {})
    assert pod_status({"metadata": metadata, "spec": {}, "status": status}) == text
