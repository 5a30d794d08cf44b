import pytest
from click.testing import CliRunner

from trimtab.cli.commands.drain import command as drain
from trimtab.cli.commands.drain import print_step, summary_text
from trimtab.rescheduling.drain import DrainStep


def test_help_lists_the_options_of_kubectl_drain() -> None:
    assert "--ignore-daemonsets" in CliRunner().invoke(drain, ["--help"]).output


@pytest.mark.parametrize("wrong", [["--parallel", "0"], ["--timeout", "-1"], ["--grace-period", "-2"]])
def test_numbers_out_of_range_are_refused(wrong: list[str]) -> None:
    result = CliRunner().invoke(drain, ["node-1", *wrong])
    assert result.exit_code == 2
    assert "is not in the range" in result.output


def test_step_is_printed_in_one_line(capsys) -> None:
    print_step(DrainStep("default/web-0", "Blocked", "web needs 2 healthy pods and has 2 currently"))
    assert (
        capsys.readouterr().out
        == "blocked                default/web-0: web needs 2 healthy pods and has 2 currently\n"
    )


def test_summary_names_the_remaining_pods() -> None:
    left = [DrainStep("default/web-0", "Failed")]
    assert summary_text([], dry_run=False) == "drained"
    assert summary_text(left, dry_run=False) == "not drained: 1 pod left (default/web-0)"
    assert summary_text(left * 6, dry_run=True).startswith("cannot be drained now because of 6 pods (default/web-0, ")
    assert summary_text(left * 6, dry_run=True).endswith(", ...)")
