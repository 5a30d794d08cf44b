"""Bounds of JSON texts and values, checked by counting."""

import re
from typing import Any

from trimtab.api.limits import MAX_DEPTH, MAX_PATH_LENGTH

_STRING_PATTERN = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)
"""A string; an unclosed one reaches to the end, so that no other search begins inside it."""
_CONTAINER_TYPES = (dict, list)


def without_strings(text: bytes) -> bytes:
    """A JSON text without its keys and strings."""
    return _STRING_PATTERN.sub(b"", text)


def _count_nodes(text: bytes) -> int:
    """An upper bound of the number of values in a JSON text; empty containers and separators in strings count too much."""
    return text.count(b",") + text.count(b"{") + text.count(b"[") + 1


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether a JSON text has more values than the limit, by counting its separators."""
    if len(text) <= limit or _count_nodes(text) <= limit:
        return False
    # escaped quotes do not delimit strings; every value has at most two strings, its key and itself
    has_many_strings = text.count(b'"') - text.count(b'\\"') > 4 * limit
    return has_many_strings or _count_nodes(without_strings(text)) > limit


def check_depth(obj: Any) -> None:
    """Refuse what nests too deeply or has too long paths; not recursive, because Python's stack is short."""
    open_: list[tuple[Any, int, int]] = [(obj, 0, 0)]
    while open_:
        node, depth, length = open_.pop()
        if depth > MAX_DEPTH:
            raise ValueError("exceeded max depth")
        if type(node) is dict:
            if node and length + max(map(len, node)) > MAX_PATH_LENGTH:
                raise ValueError(f"the keys of a path are longer than {MAX_PATH_LENGTH} characters")
            open_ += [
                (item, depth + 1, length + len(key)) for key, item in node.items() if type(item) in _CONTAINER_TYPES
            ]
        elif type(node) is list:
            open_ += [(item, depth + 1, length) for item in node if type(item) in _CONTAINER_TYPES]
