"""`trimtab preview`: only propagation policies are accepted."""

from pathlib import Path

from click.testing import CliRunner

from trimtab.cli.commands.preview import command


def test_help_lists_the_kubeconfig_option() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "--kubeconfig" in result.output


def test_object_that_is_not_a_policy_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    result = CliRunner().invoke(command, ["-f", str(file)])
    assert "ConfigMap default/a is not a propagation policy" in str(result.exception)
