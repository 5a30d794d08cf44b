"""`trimtab snapshot`: `tests/dryrun/test_snapshot.py` tests what is in one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.cli.commands import snapshot
from trimtab.cli.commands.snapshot import command
from trimtab.clock import EPOCH
from trimtab.dryrun.fleet_state import FleetState


def test_a_file_is_required() -> None:
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 2
    assert "--output" in result.output


def test_snapshot_is_written_to_standard_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(snapshot, "with_client", lambda *_: FleetState.of([], [], EPOCH))
    result = CliRunner().invoke(command, ["-o", "-"])
    assert json.loads(result.output)["format"]
    assert list(tmp_path.iterdir()) == []
