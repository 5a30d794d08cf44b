"""`trimtab cordon-cluster`."""

from click.testing import CliRunner

from trimtab.cli.commands.cordon_cluster import command


def test_help_names_the_reverse_command() -> None:
    output = CliRunner().invoke(command, ["--help"]).output
    assert "uncordon-cluster" in "".join(output.split())
