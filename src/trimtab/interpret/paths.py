"""Reading and replacing one place inside a plain object, without ever changing what was handed in."""

from collections.abc import Mapping
from typing import Any

from trimtab.api.value import Raw


def dig(thing: Any, *path: str) -> Any:
    """What lies at `path`, or None when any step is missing."""
    for step in path:
        if type(thing) is not dict and not isinstance(thing, Mapping):  # the first is true of nearly all, and quick
            return None
        thing = thing.get(step)
    return thing


def table(thing: Any, *path: str) -> Raw:
    """The mapping at `path`, or an empty one."""
    found = dig(thing, *path)
    return found if isinstance(found, dict) else {}


def rows(thing: Any, *path: str) -> list[Any]:
    """The list at `path`, or an empty one."""
    found = dig(thing, *path)
    return list(found) if isinstance(found, list | tuple) else []


def tables(thing: Any, *path: str) -> list[Raw]:
    """The mappings in the list at `path`."""
    return [row for row in rows(thing, *path) if isinstance(row, dict)]


def number(thing: Any, *path: str) -> int:
    """The whole number at `path`, 0 when there is none."""
    found = dig(thing, *path)
    return int(found) if isinstance(found, int | float) and not isinstance(found, bool) else 0


def text(thing: Any, *path: str) -> str:
    """The string at `path`, empty when there is none."""
    found = dig(thing, *path)
    return found if isinstance(found, str) else ""


def planted(thing: Raw, value: Any, *path: str) -> Raw:
    """`thing` with `value` at `path`; mappings on the way are made when missing."""
    first, *rest = path
    if rest:
        value = planted(table(thing, first), value, *rest)
    return {**thing, first: value}


def uprooted(thing: Raw, *path: str) -> Raw:
    """`thing` without what lies at `path`; the very same object when there was nothing."""
    first, *rest = path
    if first not in thing:
        return thing
    if not rest:
        return {key: value for key, value in thing.items() if key != first}
    inner = thing[first]
    if not isinstance(inner, dict):
        return thing
    shorter = uprooted(inner, *rest)
    return thing if shorter is inner else {**thing, first: shorter}


def kind_of(obj: Raw) -> tuple[str, str]:
    """apiVersion and kind: what interpreters are chosen by."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    return version if isinstance(version, str) else "", kind if isinstance(kind, str) else ""
