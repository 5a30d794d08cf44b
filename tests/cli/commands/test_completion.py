"""`trimtab completion`."""

import pytest
from click.testing import CliRunner

from trimtab.cli.main import trimtab


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_completes_the_command(shell: str) -> None:
    result = CliRunner().invoke(trimtab, ["completion", shell])
    assert result.exit_code == 0
    assert "_TRIMTAB_COMPLETE" in result.output


def test_unknown_command_suggests_similar_ones() -> None:
    result = CliRunner().invoke(trimtab, ["rebalanc"])
    assert result.exit_code == 2
    assert "Did you mean: rebalance?" in result.output
