import pytest
from click.testing import CliRunner

from trimtab.cli.commands.delete import command as delete
from trimtab.cli.commands.drain import command as drain
from trimtab.cli.commands.drain import summary, tell
from trimtab.rescheduling.drain import Step


def test_the_commands_explain_themselves() -> None:
    assert "--ignore-daemonsets" in CliRunner().invoke(drain, ["--help"]).output
    assert "--direct" in CliRunner().invoke(delete, ["pod", "--help"]).output


@pytest.mark.parametrize("wrong", [["--parallel", "0"], ["--timeout", "-1"], ["--grace-period", "-2"]])
def test_numbers_that_make_no_sense_are_refused_before_anything_happens(wrong: list[str]) -> None:
    answer = CliRunner().invoke(drain, ["node-1", *wrong])
    assert answer.exit_code == 2
    assert "is not in the range" in answer.output


def test_a_step_is_one_line(capsys) -> None:
    tell(Step("default/web-0", "Blocked", "web needs 2 healthy pods and has 2 currently"))
    assert (
        capsys.readouterr().out
        == "blocked                default/web-0: web needs 2 healthy pods and has 2 currently\n"
    )


def test_the_last_line_names_what_is_left() -> None:
    left = [Step("default/web-0", "Failed")]
    assert summary([], dry_run=False) == "drained"
    assert summary(left, dry_run=False) == "not drained: 1 pod left (default/web-0)"
    assert summary(left * 6, dry_run=True).startswith("cannot be drained now because of 6 pods (default/web-0, ")
    assert summary(left * 6, dry_run=True).endswith(", ...)")
