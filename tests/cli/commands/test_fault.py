"""`trimtab fault`: its arguments; `tests/simulate/test_faults.py` tests what faults do."""

import pytest
from click.testing import CliRunner

from trimtab.cli.commands.fault import command, parse_score
from trimtab.errors import InputError


def test_states_are_listed_in_the_help() -> None:
    result = CliRunner().invoke(command, ["cluster", "--help"])
    words = "".join(result.output.split())
    assert "{down|partition|slow|flapping|recover}" in words


def test_scores_are_parsed() -> None:
    assert parse_score("latency/ms=-4") == ("latency", "ms", -4)
    for text in ("latency", "latency/ms", "latency/ms=x", "/ms=1"):
        with pytest.raises(InputError, match="RESOURCE/NAME=VALUE"):
            parse_score(text)
