"""`trimtab snapshot`: `tests/dryrun/test_snapshot.py` tests what is in one."""

from click.testing import CliRunner

from trimtab.cli.commands.snapshot import command


def test_a_file_is_required() -> None:
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 2
    assert "--output" in result.output
