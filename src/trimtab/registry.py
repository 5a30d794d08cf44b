"""Registries of plugins; importing all modules of a plugin package registers its plugins."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries by name; adding a second entry of the same name is an error."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        if name in self._entries:
            raise ValueError(f"there are two {self._noun}s with the name {name!r}")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> T | None:
        return self._entries.get(name)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def values(self) -> Iterator[T]:
        return (self._entries[name] for name in self.names())


def discover(package: ModuleType) -> None:
    """Import all modules of `package`, recursively and in name order, so that their decorators run."""
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        found = importlib.import_module(f"{package.__name__}.{module.name}")
        if module.ispkg:
            discover(found)
