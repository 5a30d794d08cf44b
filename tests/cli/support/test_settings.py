"""Settings of `--set NAME=VALUE` are converted and checked."""

import asyncio
from typing import Any

import click
import pytest

from trimtab.cli.support.settings import parse_settings, settings_of_server
from trimtab.client.client import PlainResponse


def test_settings_are_converted_to_numbers_and_booleans() -> None:
    pairs = ("move-timeout-seconds=1.0", "eviction-rate=2", "failover=false", "eviction-purge-mode=x=y")
    assert parse_settings(pairs) == {
        "move-timeout-seconds": 1,
        "eviction-rate": 2.0,
        "failover": False,
        "eviction-purge-mode": "x=y",
    }


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("foo=1", "there is no setting foo; the settings are "),
        ("failovr=true", "did you mean failover?"),
        ("failover=1", "expected bool"),
        ("move-timeout-seconds=soon", "expected int"),
        ("move-timeout-seconds=1.5", "expected int"),
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


class Server:
    """Answers the question for the settings."""

    def __init__(self, code: int, body: bytes) -> None:
        self._answer = PlainResponse(code, body)

    async def fetch(self, path: str) -> PlainResponse:
        assert path == "/debug/profile"
        return self._answer


@pytest.mark.parametrize(
    ("code", "body", "settings"),
    [
        (200, b'{"settings": {"evacuate-after-seconds": 10, "eviction-rate": 2}}', {"evacuate-after-seconds": 10, "eviction-rate": 2}),
        (200, b'{"settings": {"unknown": 1, "failover": "yes"}}', {}),
        (200, b'{"profile": "trimtab"}', {}),
        (200, b"no json", {}),
        (404, b"{}", {}),
    ],
)  # fmt: skip
def test_settings_of_a_server_are_used_where_it_tells_them(code: int, body: bytes, settings: dict[str, Any]) -> None:
    assert asyncio.run(settings_of_server(Server(code, body))) == settings  # type: ignore[arg-type]
