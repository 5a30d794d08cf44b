"""The profile and the settings of the server, which plans and explanations use."""

import asyncio
from typing import Any

import pytest
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.cli.support.server_state import ServerOptions, fetch_state, options_of_server
from trimtab.client.client import PlainResponse


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
    assert asyncio.run(options_of_server(Server(code, body))).settings == settings  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "chosen", "profile"),
    [
        (b'{"profile": "upstream"}', None, UPSTREAM),
        (b'{"profile": "upstream"}', "trimtab", TRIMTAB),
        (b'{"profile": "other"}', None, TRIMTAB),
        (b"[]", None, TRIMTAB),
    ],
)
def test_profile_is_the_chosen_one_or_that_of_the_server(body: bytes, chosen: str | None, profile: Any) -> None:
    options = asyncio.run(options_of_server(Server(200, body)))  # type: ignore[arg-type]
    assert options.profile_or(chosen) is profile


def test_options_that_no_server_tells_are_empty() -> None:
    assert asyncio.run(options_of_server(Server(404, b"{}"))) == ServerOptions()  # type: ignore[arg-type]


def test_state_has_the_settings_of_the_server_and_those_that_the_user_chose() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        state = await fetch_state(scene.client, chosen={"eviction-rate": 1.0})
        assert state.profile is UPSTREAM
        assert (state.settings["cluster-failure-threshold"], state.settings["eviction-rate"]) == (10, 1.0)
        assert [binding.name for binding in state.bindings] == ["web-deployment"]

    run_scenario(act, profile=UPSTREAM)
