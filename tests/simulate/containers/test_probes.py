"""Probes that run commands."""

import random

import pytest

from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.probes import ProbeState, check_once
from trimtab.simulate.containers.programs import ContainerContext


@pytest.mark.parametrize(
    ("script", "holds"),
    [
        ("sleep 5", True),
        ("sleep 5; exit 1", False),
        ("while true; do sleep 1; done", False),
        ("while true; do :; done", False),
        ("while true; do sleep 0; done", False),
    ],
)
def test_probe_command_that_does_not_end_has_failed(script: str, holds: bool) -> None:
    context = ContainerContext({}, Files(), random.Random(0))
    probe = {"exec": {"command": ["sh", "-c", script]}}
    assert check_once(probe, {}, None, context) is holds


def test_probe_that_was_not_looked_at_for_long_is_checked_a_few_times() -> None:
    checks = 0

    def check(_: object) -> bool:
        nonlocal checks
        checks += 1
        return False

    state = ProbeState({"periodSeconds": 1, "failureThreshold": 1_000_000}, 0.0, check, initially=True)
    state.advance(500_000.0)
    assert 0 < checks < 50
