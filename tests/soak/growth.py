"""Measures everything in the process that could grow, by asking the garbage collector for the objects of Trimtab."""

import functools
import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CONTAINERS = (dict, list, set, deque)
MIN_GROWTH = 40
"""Growth by fewer entries than this between two equal points is not told apart from chance."""
MAX_FACTOR = 1.25

Sizes = dict[str, int]


def measure(*directories: Path) -> Sizes:
    """The entries per container attribute and unlimited cache, the allocated blocks, the bytes in the directories."""
    gc.collect()
    sizes: Counter[str] = Counter()
    for obj in gc.get_objects():
        if isinstance(obj, functools._lru_cache_wrapper):
            if obj.cache_info().maxsize is not None:
                continue  # it cannot grow without limit
            sizes[f"cache of {obj.__module__}.{getattr(obj, '__qualname__', '?')}"] += obj.cache_info().currsize
        elif str(type(obj).__module__).startswith("trimtab."):
            for name, value in _attributes(obj):
                if isinstance(value, CONTAINERS):
                    sizes[f"{type(obj).__name__}.{name}"] += _entries(value)
    sizes["objects of the garbage collector"] = len(gc.get_objects())
    sizes["allocated blocks"] = sys.getallocatedblocks()
    for directory in directories:
        sizes[f"bytes in {directory.name}"] = sum(file.stat().st_size for file in directory.rglob("*"))
    return dict(sizes)


def _entries(container: Any) -> int:
    """The entries of a container, and those of the containers in it: an index of few keys can have long lists."""
    values = container.values() if isinstance(container, dict) else container
    return len(container) + sum(len(value) for value in values if isinstance(value, CONTAINERS))


def _attributes(obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, CONTAINERS):
        yield "entries", obj
    yield from vars(obj).items() if hasattr(obj, "__dict__") else ()
    for type_ in type(obj).__mro__:
        slots = getattr(type_, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{type_.__name__}{name}" if name.startswith("__") and not name.endswith("__") else name
            if hasattr(obj, mangled):
                yield name, getattr(obj, mangled)


def growing(points: Sequence[Sizes]) -> list[str]:
    """What grows over points that should be equal: the later half never returns to the level of the earlier half."""
    middle = len(points) // 2
    names = sorted({name for sizes in points for name in sizes})
    return [
        f"{name} grows: {', '.join(str(sizes.get(name, 0)) for sizes in points)}"
        for name in names
        if _grows([s.get(name, 0) for s in points[:middle]], [s.get(name, 0) for s in points[middle:]])
    ]


def _grows(earlier: Sequence[int], later: Sequence[int]) -> bool:
    """Whether all later values are clearly above all earlier ones, and the last one is not below the first later one."""
    return min(later) > max(earlier) + MIN_GROWTH and later[-1] > MAX_FACTOR * max(earlier) and later[-1] >= later[0]
