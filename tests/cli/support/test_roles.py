"""The roles of `trimtab controllers`."""

import click
import pytest

from trimtab.cli.support.roles import DEFAULT_ROLES, deciding_settings, is_push_controller, parse_roles
from trimtab.controllers.clusters.ownership import LEASE_NAMESPACE
from trimtab.controllers.clusters.served import OWNED_MEMBERS
from trimtab.controllers.propagation.template_scope import OWN_NAMESPACE


def test_default_is_everything_for_the_fleet() -> None:
    assert parse_roles(DEFAULT_ROLES) == {"decide", "push"}
    assert deciding_settings(parse_roles(DEFAULT_ROLES), "ns") == {OWN_NAMESPACE: "ns"}


@pytest.mark.parametrize("text", ["", ",", "decide,write"])
def test_unknown_roles_are_usage_errors(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_roles(text)


def test_process_that_only_decides_leaves_the_members_to_others() -> None:
    assert deciding_settings(parse_roles("decide"), "ns") == {
        OWN_NAMESPACE: "ns",
        OWNED_MEMBERS: frozenset(),
        LEASE_NAMESPACE: "ns",
    }


def test_push_runs_what_an_agent_runs() -> None:
    assert is_push_controller("execute")
    assert is_push_controller("health")
    assert not is_push_controller("schedule")
