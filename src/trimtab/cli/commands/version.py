"""`trimtab version`: print the installed version and the commit it was built from."""

import platform

import click

from trimtab import __version__
from trimtab.build_info import built_commit

FORMATS = ("table", "json", "yaml")


@click.command()
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True, help="Output format."
)
def command(output: str) -> None:
    """Print the version, and the commit that it was built from."""
    if output != FORMATS[0]:
        from trimtab.cli.support.output import format_structured  # noqa: PLC0415 - the plain answer needs none of it

        facts = {
            "version": __version__,
            "commit": built_commit(),
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
        }
        click.echo(format_structured(facts, output))
        return
    build = [f"commit {commit}"] if (commit := built_commit()) else []
    about = (*build, f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}")
    click.echo(f"trimtab {__version__} ({', '.join(about)})")
