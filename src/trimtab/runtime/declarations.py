"""Imports every kind, plugin and controller, so that their declarations are known."""

from trimtab import controllers, plugins
from trimtab.api import kinds
from trimtab.registry import discover


def learn_everything() -> None:
    """Import every kind, plugin and controller, so that their declarations are known."""
    for package in (kinds, plugins, controllers):
        discover(package)
