"""`trimtab freeze` writes who, when and why into the DisruptionPolicy."""

from click.testing import CliRunner

from trimtab.cli.main import trimtab


def test_reason_that_is_too_long_is_refused_before_anything_is_sent() -> None:
    result = CliRunner().invoke(trimtab, ["freeze", "--reason", "x" * 1025, "--kubeconfig", "/does/not/exist"])
    assert result.exit_code == 2
    assert "--reason has 1025 characters; at most 1024 are allowed" in result.output


def test_help_says_what_stops_and_what_goes_on() -> None:
    text = " ".join(CliRunner().invoke(trimtab, ["freeze", "--help"]).output.split())
    assert "failovers and evictions of pods" in text
    assert "Scaling, first placements and new versions of workloads go on" in text
