"""`trimtab version` prints the version of Trimtab and of Python."""

import json
import platform

from click.testing import CliRunner

from trimtab import __version__
from trimtab.cli.commands.version import command


def test_version_of_trimtab_and_python_is_printed() -> None:
    output = CliRunner().invoke(command).output
    assert output.startswith(f"trimtab {__version__} (Python {platform.python_version()}, ")
    assert output.count("\n") == 1


def test_version_as_json_has_its_parts() -> None:
    found = json.loads(CliRunner().invoke(command, ["-o", "json"]).output)
    assert (found["version"], found["python"]) == (__version__, platform.python_version())
