"""One file in a plugin package is one plugin: importing the package's modules registers them."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries by name; a second entry of the same name is a mistake, never an override."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        if name in self._entries:
            raise ValueError(f"two {self._noun}s are called {name!r}")
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
    """Import every module of `package` and of the packages in it, in name order, so that its decorators run."""
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        found = importlib.import_module(f"{package.__name__}.{module.name}")
        if module.ispkg:
            discover(found)
