"""`kubectl trimtab` completes commands, options and values."""

import pytest

from trimtab.cli.kubectl_completion import completion_lines


def test_commands_are_completed_with_their_description() -> None:
    lines = completion_lines(["join"])
    assert [line.partition("\t")[0] for line in lines] == ["join", "join-command", ":4"]
    assert all("\t" in line for line in lines[:-1])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["join-command", "--to"], ["--tokens", ":4"]),
        (["controllers", "--log-format", ""], ["text", "json", ":4"]),
        (["no-such-command", "--x"], [":4"]),
        (["backup", ""], [":0"]),  # a file
    ],
)
def test_options_and_values_are_completed(words: list[str], expected: list[str]) -> None:
    assert [line.partition("\t")[0] for line in completion_lines(words)] == expected


def test_nothing_typed_lists_all_commands() -> None:
    assert len(completion_lines([])) == len(completion_lines([""])) > 40
