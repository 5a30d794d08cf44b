"""A port that does not exist is refused by the option, before anything starts."""

import pytest
from click.testing import CliRunner

from trimtab.cli.main import trimtab


@pytest.mark.parametrize("command", ["up", "apiserver", "console", "webhook"])
@pytest.mark.parametrize("port", ["65536", "-1"])
def test_a_port_out_of_range_is_refused(command: str, port: str) -> None:
    result = CliRunner().invoke(trimtab, [command, "--port", port])
    assert result.exit_code == 2, result.output
    assert f"{port} is not in the range 0<=x<=65535" in result.output
