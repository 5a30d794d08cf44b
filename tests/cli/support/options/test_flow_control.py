"""The options that limit requests."""

import click
from click.testing import CliRunner

from trimtab.cli.support.options.flow_control import flow_control_options, flow_limits
from trimtab.server.flowcontrol.controller import FlowLimits


def limits_of(*arguments: str) -> FlowLimits:
    found = []

    @click.command()
    @flow_control_options
    def command(**limits: int) -> None:
        found.append(flow_limits(**limits))

    assert CliRunner().invoke(command, list(arguments)).exit_code == 0
    return found[0]


def test_defaults_are_those_of_the_server() -> None:
    assert limits_of() == FlowLimits()


def test_options_set_the_seats() -> None:
    limits = limits_of("--max-requests-inflight", "7", "--max-mutating-requests-inflight", "5")
    assert limits.seats == 12
