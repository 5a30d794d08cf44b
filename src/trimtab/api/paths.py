"""Reading and replacing values at a path of keys in raw objects, without changing the object that was passed in.

The readers accept any shape and return an empty value where a step is missing: reporting a wrong shape is the schema's
task.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import is_not
from typing import Any

from trimtab.api.value import Raw


def value_at(obj: Any, *path: str) -> Any:
    """The value at `path`, or None when any step is missing."""
    for step in path:
        if (type(obj) is not dict and not isinstance(obj, Mapping)) or step not in obj:
            return None
        obj = obj[step]
    return obj


def object_at(obj: Any, *path: str) -> Raw:
    """The mapping at `path`, or an empty one."""
    found = value_at(obj, *path)
    return found if isinstance(found, dict) else {}


def list_at(obj: Any, *path: str) -> list[Any]:
    """A copy of the list at `path`, or an empty one."""
    found = value_at(obj, *path)
    return list(found) if isinstance(found, list | tuple) else []


def objects_at(obj: Any, *path: str) -> list[Raw]:
    """The mappings in the list at `path`."""
    return [row for row in list_at(obj, *path) if isinstance(row, dict)]


def indexed_objects(value: Any) -> Iterator[tuple[int, Raw]]:
    """The mappings in a list, each with its index in that list."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            if isinstance(item, dict):
                yield i, item


def int_at(obj: Any, *path: str) -> int:
    """The number at `path` cut to an integer, 0 when there is none."""
    found = value_at(obj, *path)
    if type(found) is int:
        return found
    return int(found) if isinstance(found, int | float) and not isinstance(found, bool) else 0


def int_or_zero(value: Any) -> int:
    """The value if it is an integer; 0 for anything else (also for floats), as Go's zero value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def string_at(obj: Any, *path: str) -> str:
    """The string at `path`, empty when there is none."""
    found = value_at(obj, *path)
    return found if isinstance(found, str) else ""


def strings_in(value: Any) -> list[str]:
    """The strings in a list; empty when the value is not a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def with_value(obj: Raw, value: Any, *path: str) -> Raw:
    """A copy of `obj` with `value` at `path`; missing mappings on the way are created."""
    first, *rest = path
    if rest:
        value = with_value(object_at(obj, first), value, *rest)
    return {**obj, first: value}


def without_value(obj: Raw, *path: str) -> Raw:
    """`obj` without the value at `path`; the same object when there is none."""
    first, *rest = path
    if first not in obj:
        return obj
    if not rest:
        return {key: value for key, value in obj.items() if key != first}
    inner = obj[first]
    if not isinstance(inner, dict):
        return obj
    shorter = without_value(inner, *rest)
    return obj if shorter is inner else {**obj, first: shorter}


def map_objects_at(obj: Raw, path: tuple[str, ...], change: Callable[[Raw], Raw]) -> Raw:
    """`obj` with `change` applied to every mapping in the list at `path`; the same object when none changed."""
    items = value_at(obj, *path)
    if not isinstance(items, list):
        return obj
    changed = [change(item) if isinstance(item, dict) else item for item in items]
    return with_value(obj, changed, *path) if any(map(is_not, changed, items)) else obj


def api_version_and_kind(obj: Raw) -> tuple[str, str]:
    """apiVersion and kind of `obj`: interpreters are selected by them."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    return version if isinstance(version, str) else "", kind if isinstance(kind, str) else ""
