"""Reports are coloured only on a terminal; colour never changes the words."""

import re

import pytest

from trimtab.cli.support.reports import echo_report, uses_colour, with_coloured_states


def test_words_for_states_are_coloured_and_nothing_else() -> None:
    text = with_coloured_states("READY False member-False Refused/x web")
    assert "\x1b[31mFalse\x1b[0m" in text
    assert re.sub(r"\x1b\[\d+m", "", text) == "READY False member-False Refused/x web"
    assert text.count("\x1b[31m") == 1


def test_no_colour_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    echo_report("False")
    assert capsys.readouterr().out == "False\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not uses_colour()
