"""`trimtab version`: print the installed version and the commit it was built from."""

import platform
from importlib.resources import files

import click

from trimtab import __version__


@click.command()
def command() -> None:
    """Print the version, and the commit that it was built from."""
    build = [f"commit {commit}"] if (commit := built_commit()) else []
    about = (*build, f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}")
    click.echo(f"trimtab {__version__} ({', '.join(about)})")


def built_commit() -> str:
    """The commit in a built package; empty in an editable installation."""
    path = files("trimtab") / "commit.txt"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
