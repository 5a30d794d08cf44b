"""The set-up of .venv: what is installed, what is linked, and that progress is shown on a terminal alone."""

import subprocess
import sys
from pathlib import Path

import environment
import pytest

ROOT = Path(__file__).parents[2]


def test_linked_source_runs_by_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    environment.link_package()
    show = "import trimtab; print(trimtab.__file__)"
    found = subprocess.run([tmp_path / "venv/bin/python", "-c", show], capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()) == ROOT / "src" / "trimtab" / "__init__.py"
    for name in ("trimtab", "kubectl-trimtab"):
        text = (tmp_path / "venv" / "bin" / name).read_text()
        assert text.startswith(f"#!{tmp_path}/venv/bin/python\n")


@pytest.mark.parametrize("told_to_write_none", [True, False])
def test_byte_code_is_written_once_where_python_writes_none(
    told_to_write_none: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "trimtab").write_text(f'#!/bin/sh\necho "$* [$PYTHONDONTWRITEBYTECODE]" > {seen}\n')
    (tmp_path / "bin" / "trimtab").chmod(0o755)
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", told_to_write_none)
    environment.write_byte_code()
    assert (seen.read_text() if seen.exists() else "") == ("--help []\n" if told_to_write_none else "")


def test_running_needs_no_package_of_development() -> None:
    run = (ROOT / "requirements" / "core.txt").read_text()
    assert environment.locked_packages(ROOT / "requirements" / "core.txt") < 30
    assert not any(f"{name}==" in run for name in ("pytest", "mypy", "hatchling", "playwright"))


@pytest.mark.parametrize(("terminal", "text"), [(True, "    3 numpy"), (False, "")])
def test_progress_is_shown_on_a_terminal(
    terminal: bool, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    environment.show_progress("Collecting numpy==2.4.6 (from -r requirements/core.txt (line 9))\n", 3)
    assert capsys.readouterr().out.endswith(text)
