"""`--feature-gates` sets the settings that Karmada's gates stand for, and refuses what has no effect."""

import click
import pytest

from trimtab.cli.support.options.feature_gates import parse_feature_gates


def test_gates_become_settings() -> None:
    assert parse_feature_gates("Failover=false,PropagationPolicyPreemption=true") == {
        "failover": False,
        "policy-preemption": True,
    }
    assert parse_feature_gates("") == {}


def test_a_gate_of_its_own_wins_over_all() -> None:
    assert parse_feature_gates("Failover=false,AllAlpha=true")["failover"] is False
    assert parse_feature_gates("AllAlpha=true,Failover=false")["failover"] is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Unknown=true", "there is no feature gate Unknown"),
        ("Failover", "expected NAME=true"),
        ("GracefulEviction=false", "cannot be switched off"),
    ],
)
def test_useless_gates_are_refused(text: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        parse_feature_gates(text)
