"""Does the work for large objects in a thread, so that the event loop goes on meanwhile.

Decoding, defaults, managed fields, patches and validation of an object take some microseconds per value, together up to a
second for the largest objects. They are functions of their arguments, so they can run anywhere. One thread does them all: a
second one would only take more of the processor from the event loop.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, cast

from trimtab.api.json_bounds import has_more_values
from trimtab.api.limits import MAX_BYTES_IN_LOOP, MAX_JSON_BYTES_IN_LOOP, MAX_VALUES_IN_LOOP

_SWITCH_SECONDS = 0.001
"""How long the thread keeps Python's lock when the event loop wants it."""
_thread = ThreadPoolExecutor(1, "large objects", initializer=partial(sys.setswitchinterval, _SWITCH_SECONDS))
Result = TypeVar("Result")


def is_large(text: bytes) -> bool:
    """Whether an object with this JSON has too many values or bytes to be processed in the event loop."""
    return len(text) > MAX_JSON_BYTES_IN_LOOP or has_more_values(text, MAX_VALUES_IN_LOOP)


def any_large(values: Iterable[bytes], searches: int = 1) -> bool:
    """Whether one of many stored objects may be too large to be decoded, or searched so often, in the event loop.

    Only their sizes are looked at.
    """
    return any(len(value) * searches > MAX_BYTES_IN_LOOP for value in values)


def has_many_values(obj: object) -> bool:
    """Whether a decoded object has too many values to be processed in the event loop; no more of them are looked at."""
    left, pending = MAX_VALUES_IN_LOOP, [obj]
    while pending:
        found = pending.pop()
        children: Collection[object] = found.values() if isinstance(found, dict) else cast("list[object]", found)
        left -= len(children)
        if left < 0:
            return True
        pending.extend(child for child in children if isinstance(child, dict | list | tuple))
    return False


async def run(large: bool, function: Callable[..., Result], *arguments: object) -> Result:
    """The result of the function, which runs in the thread if the object is large."""
    if not large:
        return function(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_thread, function, *arguments)
