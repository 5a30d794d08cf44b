"""Probes that run commands."""

import random

import pytest

from trimtab.api.value import Raw
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.probes import ProbeState, check_once
from trimtab.simulate.containers.programs import ContainerContext, find_launch


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


@pytest.mark.parametrize(
    ("probe", "holds"),
    [
        ({"httpGet": {"port": 80}}, True),
        ({"httpGet": {"port": "web"}}, True),
        ({"httpGet": {"port": 81}}, False),
        ({"tcpSocket": {"port": 80}}, True),
        ({"tcpSocket": {"port": 81}}, False),
        ({"tcpSocket": {"port": 9090}}, True),
    ],
)
def test_probe_of_a_port_where_nothing_listens_fails(probe: Raw, holds: bool) -> None:
    context = ContainerContext({}, Files(), random.Random(0))
    ports = [{"name": "web", "containerPort": 80}, {"name": "declared", "containerPort": 9090}]
    container = {"image": "agnhost", "args": ["test-webserver"], "ports": ports}
    assert check_once(probe, container, find_launch(container, context), context) is holds


def test_probe_that_was_not_looked_at_for_long_is_checked_a_few_times() -> None:
    checks = 0

    def check(_: object) -> bool:
        nonlocal checks
        checks += 1
        return False

    state = ProbeState({"periodSeconds": 1, "failureThreshold": 1_000_000}, 0.0, check, initially=True)
    state.advance(500_000.0)
    assert 0 < checks < 50
