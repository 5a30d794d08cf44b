"""The options for traces."""

import click
import pytest
from click.testing import CliRunner

from trimtab.cli.support.options.traces import trace_options, trace_target
from trimtab.client.otlp import TraceTarget
from trimtab.errors import InputError


def test_without_an_address_nothing_is_sent() -> None:
    assert trace_target("", 1.0) is None


def test_address_of_a_collector_gets_the_path_for_traces() -> None:
    assert trace_target("http://collector:4318", 0.1) == TraceTarget("http://collector:4318/v1/traces", 0.1)


def test_wrong_address_is_refused() -> None:
    with pytest.raises(InputError, match="address of a collector"):
        trace_target("collector", 1.0)


def test_ratio_is_between_zero_and_one() -> None:
    @click.command()
    @trace_options
    def command(trace_endpoint: str, trace_ratio: float) -> None:
        raise AssertionError

    result = CliRunner().invoke(command, ["--trace-ratio", "1.5"])
    assert result.exit_code == 2
    assert "--trace-ratio" in result.output
