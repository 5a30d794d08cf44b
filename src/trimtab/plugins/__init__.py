"""Placement plugins, one rule per file. `load` registers ours and those of other distributions."""

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points

from trimtab.registry import discover

ENTRY_POINT_GROUP = "trimtab.plugins"


@cache
def load() -> None:
    """Register every plugin, once: our packages first, then each entry point of the group `trimtab.plugins`."""
    for package in pkgutil.iter_modules(__path__):
        discover(importlib.import_module(f"{__name__}.{package.name}"))
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        entry.load()
