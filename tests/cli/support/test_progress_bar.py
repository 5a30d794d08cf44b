"""The progress bar is drawn on terminals only."""

import sys

import pytest

from trimtab.cli.support.progress_bar import WIDTH, ProgressBar, bar_text


def test_bar_is_filled_in_proportion_and_never_overflows() -> None:
    assert bar_text(0.0) == f"[{'.' * WIDTH}]"
    assert bar_text(0.5).count("#") == WIDTH // 2
    assert bar_text(1.5) == f"[{'#' * WIDTH}]"


def test_nothing_is_written_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar()
    bar.show(0.5, "half")
    bar.clear()
    assert capsys.readouterr().err == ""


def test_bar_on_a_terminal_is_erased_before_other_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = ProgressBar()
    bar.show(0.5, "half")
    line = capsys.readouterr().err
    assert line.endswith(" 50% half")
    bar.clear()
    assert capsys.readouterr().err == f"\r{' ' * len(line)}\r"
