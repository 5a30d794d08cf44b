"""Placement plugins, one rule per file. `load` registers ours and those of other distributions."""

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from trimtab.registry import discover

ENTRY_POINT_GROUP = "trimtab.plugins"


@cache
def load() -> None:
    """Register every plugin, once: our packages first, then each entry point of the group `trimtab.plugins`."""
    _load_packages(package.name for package in pkgutil.iter_modules(__path__))


@cache
def load_for_clusters() -> None:
    """Register the plugins that choose clusters and those of other distributions; plans and explanations need no others."""
    _load_packages(("filters", "placement_filters", "scores"))


def _load_packages(names: Iterable[str]) -> None:
    for name in names:
        discover(importlib.import_module(f"{__name__}.{name}"))
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        entry.load()
