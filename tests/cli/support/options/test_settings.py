"""Settings of `--set NAME=VALUE` are converted and checked."""

import click
import pytest

from trimtab.cli.support.options.settings import parse_settings


def test_settings_are_converted_to_numbers_and_booleans() -> None:
    pairs = ("move-timeout-seconds=1.0", "eviction-rate=2", "failover=false", "eviction-purge-mode=Directly")
    assert parse_settings(pairs) == {
        "move-timeout-seconds": 1,
        "eviction-rate": 2.0,
        "failover": False,
        "eviction-purge-mode": "Directly",
    }


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("foo=1", "there is no setting foo; the settings are "),
        ("failovr=true", "did you mean failover?"),
        ("failover=1", "expected bool"),
        ("move-timeout-seconds=soon", "expected int"),
        ("move-timeout-seconds=1.5", "expected int"),
        ("evacuate-after-seconds=-5", "expected a number from 0 to "),
        ("cluster-failure-threshold=nan", "expected a number from 0 to "),
        ("cluster-failure-threshold=inf", "expected a number from 0 to "),
        ("move-timeout-seconds=1e30", "expected a number from 0 to "),
        ("eviction-purge-mode=x", "expected one of Directly, Gracefully"),
    ],
)
def test_unknown_settings_and_wrong_values_are_usage_errors(pair: str, message: str) -> None:
    with pytest.raises(click.UsageError) as error:
        parse_settings((pair,))
    assert message in str(error.value)


@pytest.mark.parametrize("pair", ["a", "=1"])
def test_setting_without_name_or_value_is_a_usage_error(pair: str) -> None:
    with pytest.raises(click.UsageError, match="expected NAME=VALUE"):
        parse_settings((pair,))
