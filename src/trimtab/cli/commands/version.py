"""`trimtab version`: print the installed version."""

import platform

import click

from trimtab import __version__


@click.command()
def command() -> None:
    """Print the version."""
    click.echo(f"trimtab {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
