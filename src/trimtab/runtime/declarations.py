"""Imports every kind, plugin and controller, which registers their declarations."""

from trimtab import controllers, plugins
from trimtab.api import kinds
from trimtab.registry import discover


def load_kinds() -> None:
    """Import every kind, for commands that read objects and run no controller."""
    discover(kinds)


def load_declarations() -> None:
    """Import every kind, plugin and controller."""
    for package in (kinds, plugins, controllers):
        discover(package)
