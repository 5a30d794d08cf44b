"""`trimtab version`: print the installed version and the commit it was built from."""

import platform

import click

from trimtab import __version__
from trimtab.build_info import built_commit


@click.command()
def command() -> None:
    """Print the version, and the commit that it was built from."""
    build = [f"commit {commit}"] if (commit := built_commit()) else []
    about = (*build, f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}")
    click.echo(f"trimtab {__version__} ({', '.join(about)})")
