"""The tools that users have, for the tests of what is released: helm and promtool."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "rig"), str(ROOT / "tools")]


def tool(name: str) -> str:
    from packaging_tools import find_tool

    found = find_tool(name)
    if found is None:
        pytest.fail(f"{name} is missing; run `make packaging-tools`")
    return str(found)


def run(*command: str) -> str:
    """The output of a command; its error output is shown when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
