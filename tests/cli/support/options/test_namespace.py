"""Options that take a namespace refuse names that no namespace can have."""

import click
import pytest
from click.testing import CliRunner

from trimtab.cli.commands import approve, explain, fault, history, observe, plan, purge, rebalance, unblock
from trimtab.cli.support.options.namespace import namespace_option


@click.command()
@namespace_option()
def command(namespace: str) -> None:
    click.echo(namespace)


def test_namespace_is_default_or_what_was_given() -> None:
    assert CliRunner().invoke(command, []).output == "default\n"
    assert CliRunner().invoke(command, ["-n", "shop-1"]).output == "shop-1\n"


@pytest.mark.parametrize("name", ["A B", "ünï", "a/b", "x" * 64, "-a"])
def test_impossible_name_is_refused(name: str) -> None:
    result = CliRunner().invoke(command, [f"--namespace={name}"])
    assert result.exit_code == 2
    assert "no namespace can have the name" in result.output


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (observe.command, ["--lease-namespace", "A B"]),
        (history.command, ["-n", "A B"]),
        (explain.command, ["deploy/web", "-n", "A B"]),
        (plan.command, ["-n", "A B"]),
        (rebalance.command, ["deploy/web", "-n", "A B"]),
        (approve.command, ["-n", "A B"]),
        (purge.command, ["deploy/web", "m1", "-n", "A B"]),
        (unblock.command, ["deploy/web", "m1", "-n", "A B"]),
        (fault.command, ["workload", "web", "crash", "--cluster", "m1", "-n", "A B"]),
    ],
)
def test_commands_refuse_an_impossible_namespace(command: click.Command, arguments: list[str]) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "no namespace can have the name 'A B'" in result.output
