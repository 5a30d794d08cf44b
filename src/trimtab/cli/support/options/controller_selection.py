"""The option `--controllers` of the commands that run controllers."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trimtab.controllers.selection import IsEnabled

controllers_option = click.option(
    "--controllers",
    "selected_controllers",
    default="*",
    show_default=True,
    metavar="NAME,-NAME,...",
    help="Controllers to run: names of some, or all (*) except those with a minus.",
)


def enabled_controllers(text: str) -> "IsEnabled":
    """The controllers that the option selects."""
    from trimtab.controllers.contract import controllers  # noqa: PLC0415
    from trimtab.controllers.selection import select_controllers  # noqa: PLC0415
    from trimtab.runtime.declarations import load_declarations  # noqa: PLC0415

    load_declarations()
    return select_controllers(text, [one.name for one in controllers.values()])
