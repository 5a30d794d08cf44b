"""Options of commands that serve."""

from pathlib import Path

import click
from click.testing import CliRunner

from trimtab.cli.support.options.serving import bind_option, new_data_dir_option, port_option


@click.command()
@new_data_dir_option("data")
@port_option(7443)
@bind_option
def show(data_dir: Path, port: int, bind: str) -> None:
    click.echo(f"{data_dir} {port} {bind}")


def test_defaults_are_those_of_the_command_and_only_this_machine_reaches_it() -> None:
    assert CliRunner().invoke(show).output == "data 7443 127.0.0.1\n"


def test_a_port_that_does_not_exist_is_refused() -> None:
    assert CliRunner().invoke(show, ["--port", "0"]).exit_code == 0
    for port in ("-1", "65536", "http"):
        assert CliRunner().invoke(show, ["--port", port]).exit_code == 2
