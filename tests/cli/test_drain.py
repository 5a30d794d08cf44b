from click.testing import CliRunner

from trimtab.cli.delete import command as delete
from trimtab.cli.drain import command as drain
from trimtab.cli.drain import tell
from trimtab.runtime.drain import Step


def test_the_commands_explain_themselves() -> None:
    assert "--ignore-daemonsets" in CliRunner().invoke(drain, ["--help"]).output
    assert "--direct" in CliRunner().invoke(delete, ["pod", "--help"]).output


def test_a_step_is_one_line(capsys) -> None:
    tell(Step("default/web-0", "Blocked", "web needs 2 healthy pods and has 2 currently"))
    assert (
        capsys.readouterr().out
        == "blocked                default/web-0: web needs 2 healthy pods and has 2 currently\n"
    )
