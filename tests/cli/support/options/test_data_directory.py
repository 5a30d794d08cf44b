"""The option for an existing data directory refuses what is none."""

from pathlib import Path

import click
from click.testing import CliRunner

from trimtab.cli.support.options.data_directory import data_dir_option


@click.command()
@data_dir_option
def command(data_dir: Path) -> None:
    click.echo(data_dir.name)


def test_directory_must_have_the_keys_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "used" / "pki").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    assert CliRunner().invoke(command, ["--data-dir", str(tmp_path / "used")]).output == "used\n"
    for name in ("empty", "absent"):
        refused = CliRunner().invoke(command, ["--data-dir", str(tmp_path / name)])
        assert refused.exit_code == 2
        assert "is no data directory" in refused.output
