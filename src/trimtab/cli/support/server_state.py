"""The state of a server for plans and explanations, with the profile and the settings that the server has."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from trimtab.api.kinds.policy import Policy
from trimtab.api.profile import PROFILES, TRIMTAB, Profile
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.controllers.settings import known_settings
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state
from trimtab.errors import ApiError

profile_option = click.option(
    "--profile", type=click.Choice(sorted(PROFILES)), help="The profile of decisions; by default that of the server."
)


class ServerOptions(NamedTuple):
    """What a control plane tells about itself, such as that of `trimtab up`."""

    profile: str = ""
    """The name of its profile; empty where it does not tell it."""
    settings: dict[str, object] = {}

    def profile_or(self, chosen: str | None) -> Profile:
        """The chosen profile, else that of the server, else the default."""
        return PROFILES[chosen or self.profile or TRIMTAB.name]


async def options_of_server(client: Client) -> ServerOptions:
    """The profile and the settings of the control plane; none where it does not tell them."""
    try:
        answer = await client.fetch("/debug/profile")
        told = msgspec.json.decode(answer.body, type=dict[str, Any]) if answer.code == 200 else {}
    except (ApiError, msgspec.DecodeError):
        return ServerOptions()
    profile, given = told.get("profile"), told.get("settings")
    return ServerOptions(
        profile if isinstance(profile, str) and profile in PROFILES else "",
        known_settings(given) if isinstance(given, dict) else {},
    )


async def fetch_state(
    client: Client,
    profile: str | None = None,
    chosen: Mapping[str, object] = {},
    *,
    changed_templates: Sequence[Raw] = (),
    policies: Sequence[Policy] = (),
) -> FleetState:
    """Today's state with the profile and the settings of the server; what the user chose replaces them."""
    options = await options_of_server(client)
    state = await fetch_fleet_state(
        client,
        WallClock().now(),
        options.profile_or(profile),
        changed_templates=changed_templates,
        policies=policies,
    )
    return state._replace(settings={**options.settings, **chosen})
