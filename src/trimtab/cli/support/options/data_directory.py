"""The data directory of an embedded API server, for commands that work on its files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _check(context: click.Context, parameter: click.Parameter, directory: Path) -> Path:
    if not (directory / "pki").is_dir():
        raise click.BadParameter(f"{directory} is no data directory of `trimtab up` or `trimtab apiserver`")
    return directory


def data_dir_option(function: F) -> F:
    """Add the option for an existing data directory."""
    option = click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("trimtab-data"),
        show_default=True,
        callback=_check,
        help="The data directory of the API server.",
    )
    return option(function)
