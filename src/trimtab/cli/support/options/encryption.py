"""The option for the encryption of stored objects; its name is that of kube-apiserver."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def encryption_option(command: F) -> F:
    """Add the option, which arrives as `encryption`."""
    option = click.option(
        "--encryption-provider-config",
        "encryption",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the keys that encrypt stored objects (EncryptionConfiguration with aesgcm).",
    )
    return option(command)
