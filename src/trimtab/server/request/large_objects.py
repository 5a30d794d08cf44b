"""Does the work for large objects in a thread, so that the event loop goes on meanwhile.

Decoding, defaults, managed fields, patches and validation of an object take some microseconds per value, together up to a
second for the largest objects. They are functions of their arguments, so they can run anywhere. One thread does them all: a
second one would only take more of the processor from the event loop.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import orjson

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


def is_large_object(obj: object) -> bool:
    """The same for a decoded object; one that cannot be encoded is processed where nothing waits for it."""
    try:
        return is_large(orjson.dumps(obj))
    except TypeError:  # an integer beyond 64 bits, or too many levels
        return True


async def run(large: bool, function: Callable[..., Result], *arguments: object) -> Result:
    """The result of the function, which runs in the thread if the object is large."""
    if not large:
        return function(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_thread, function, *arguments)
