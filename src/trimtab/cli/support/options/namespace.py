"""Options that take a namespace: a name that no namespace can have is refused before anything is asked."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from trimtab.api.names import label_faults

F = TypeVar("F", bound=Callable[..., Any])
MAX_SHOWN = 80


def check_namespace(_: click.Context, param: click.Parameter, value: str) -> str:
    """The callback of an option: the name, or nothing for the default."""
    if value and (faults := label_faults(value)):
        shown = value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}..."
        raise click.BadParameter(f"no namespace can have the name {shown!r}: {faults[0]}", param=param)
    return value


def namespace_option() -> Callable[[F], F]:
    """`-n/--namespace`, by default the namespace `default`."""
    return click.option("-n", "--namespace", callback=check_namespace, default="default", show_default=True)
