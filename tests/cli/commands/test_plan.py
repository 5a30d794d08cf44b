"""`trimtab plan`: its options and output; `test_move_commands` runs it against a fleet."""

from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from trimtab.cli.commands.plan import command, print_plan, write_plan
from trimtab.dryrun.plan_result import Plan, digest_of


def test_help_explains_the_exit_codes() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "Exit codes: 0 nothing changes, 2 something changes, 3" in result.output


def test_a_plan_of_nothing_is_refused() -> None:
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 2
    assert "--lose-cluster" in result.output


def test_plan_is_printed_as_table_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(unchanged=3)
    print_plan(plan, "table")
    assert "3 other workloads do not change." in capsys.readouterr().out
    print_plan(plan, "json")
    assert msgspec.json.decode(capsys.readouterr().out, type=Plan) == plan
    print_plan(plan, "yaml")
    assert yaml.safe_load(capsys.readouterr().out)["unchanged"] == 3


def test_plan_file_is_private_and_has_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = Plan()
    write_plan(plan.but(hash=digest_of(plan)), file)
    assert file.stat().st_mode & 0o777 == 0o600
    read = msgspec.json.decode(file.read_bytes(), type=Plan)
    assert read.hash == digest_of(read)
