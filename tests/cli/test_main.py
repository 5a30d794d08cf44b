"""The entrance of the command line: commands are found by name, and mistakes are told in one sentence."""

import sys

import pytest
from click.testing import CliRunner

from trimtab import __version__
from trimtab.cli.main import main, trimtab


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trimtab", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_every_command_explains_itself() -> None:
    commands = trimtab.list_commands(None)  # type: ignore[arg-type]
    assert {"up", "fleet", "join", "unjoin", "crds", "version"} <= set(commands)
    assert not [name for name in commands if name.startswith(("shared", "main"))]
    for name in commands:
        result = CliRunner().invoke(trimtab, [name, "--help"])
        assert result.exit_code == 0, (name, result.exception)
        assert result.output.startswith(f"Usage: trimtab {name}")


def test_a_fault_is_one_sentence_and_a_code(monkeypatch, capsys, tmp_path) -> None:
    assert ended(monkeypatch, "fleet", "--kubeconfig", str(tmp_path / "gone")) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"trimtab: no kubeconfig: {tmp_path / 'gone'} does not exist; name one with --kubeconfig")
    assert said.count("\n") == 1


def test_a_wrong_word_is_a_usage_error(monkeypatch, capsys) -> None:
    assert ended(monkeypatch, "nonsense") == 2
    assert "No such command 'nonsense'" in capsys.readouterr().err


def test_the_version_is_told_in_both_ways(monkeypatch, capsys) -> None:
    assert ended(monkeypatch, "--version") == 0
    assert ended(monkeypatch, "version") == 0
    assert capsys.readouterr().out.count(__version__) == 2
