"""Earlier versions of Trimtab, built from the history of this repository, for tests of upgrades and of version skew."""

import shutil
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREVIOUS = "b849114361c807cd4a97b34b4914b874c4716809"
"""The version before this one. There are no releases yet, so versions are commits."""
BEFORE_PREVIOUS = "61655dd6351e73ddccae3389a0d793e35fb278d4"


class EarlierVersion(NamedTuple):
    """An installed wheel in an environment of its own."""

    commit: str
    python: Path

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-m", "trimtab", *arguments]

    def run(self, *arguments: str) -> str:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=True).stdout


def unpack_version(commit: str, directory: Path) -> Path:
    """The files of a commit; the test is skipped, with a warning, where the history is missing."""
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
    )
    if known.returncode != 0:
        missing = (
            f"the upgrade from {commit} is NOT TESTED: this copy of the repository lacks its history; clone it in full"
        )
        warnings.warn(missing, stacklevel=2)
        pytest.skip(missing)
    source = directory / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    return source


def install_version(commit: str, directory: Path) -> EarlierVersion:
    """Build the wheel of a commit and install it; its dependencies are those of the running environment."""
    source = unpack_version(commit, directory)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=source, capture_output=True, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory / "venv")], check=True)
    python = directory / "venv" / "bin" / "python"
    (packages,) = (directory / "venv").glob("lib/python*/site-packages")
    (wheel,) = directory.glob("*.whl")
    shutil.unpack_archive(wheel, packages, "zip")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    version = EarlierVersion(commit, python)
    found = subprocess.run(
        [python, "-c", "import trimtab; print(trimtab.__file__)"], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(packages)), found
    return version
