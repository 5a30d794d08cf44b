"""Options of commands that serve: the port, the address and the directory of their data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def port_option(default: int) -> Callable[[F], F]:
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=default,
        show_default=True,
        help="Port to serve on; 0 selects a free port.",
    )


bind_option = click.option("--bind", default="127.0.0.1", show_default=True, help="Address to serve on.")


def new_data_dir_option(default: str) -> Callable[[F], F]:
    """The directory of all data of a server, which need not exist yet."""
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(default),
        show_default=True,
        help="Directory for all data.",
    )
