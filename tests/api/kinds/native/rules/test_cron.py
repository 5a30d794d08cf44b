import pytest

from trimtab.api.kinds.native.rules import cron


@pytest.mark.parametrize(
    "schedule", ["*/5 * * * *", "0 0 1 jan sun", "1-5,10 0-23/2 ? * mon-fri", "@daily", "@every 1h30m", "5/15 * * * *"]
)
def test_valid_schedules_have_no_error(schedule: str) -> None:
    assert cron.schedule_error(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("often", "expected exactly 5 fields, found 1: [often]"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ],
)
def test_invalid_schedules_get_the_error_of_the_go_parser(schedule: str, error: str) -> None:
    assert cron.schedule_error(schedule) == error
