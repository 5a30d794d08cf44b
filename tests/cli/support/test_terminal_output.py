"""Texts of objects do not control the terminal."""

import io
import subprocess
import sys
from pathlib import Path

import click
import pytest

from trimtab.cli.support.terminal_output import EscapedOutput, escape_controls, escaped_output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\r\n", "a\tb\r\n"),
        ("\x1b]0;title\x07", "^[]0;title^G"),
        ("\x1b[1A\x1b[2K", "^[[1A^[[2K"),
        ("\x9b2J", "\\x9b2J"),
        ("\x00\x7f", "^@^?"),
        (click.style("red", fg="red"), click.style("red", fg="red")),
        ("Größe 漢字", "Größe 漢字"),
    ],
)
def test_control_characters_are_shown_and_colours_stay(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


def test_everything_that_is_printed_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with escaped_output():
        click.echo("out \x1b]0;x")
        click.echo("err \x1b]0;x", err=True)
        print("printed \x1b]0;x")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("out ^[]0;x\nprinted ^[]0;x\n", "err ^[]0;x\n")


def test_stream_is_otherwise_the_same() -> None:
    stream = io.StringIO()
    escaped = EscapedOutput(stream)
    assert escaped.isatty() is False
    escaped.write("a")
    assert escaped.getvalue() == "a"


def test_errors_about_files_of_others_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"format": "\\u001b[2J"}')
    done = subprocess.run(
        [sys.executable, "-m", "trimtab", "apply-plan", str(file)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "\x1b" in done.stderr) == (1, False)
