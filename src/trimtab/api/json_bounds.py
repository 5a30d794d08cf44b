"""Bounds of JSON texts and values, checked by counting."""

from typing import Any

from trimtab.api.limits import MAX_DEPTH, MAX_PATH_LENGTH

_CONTAINER_TYPES = (dict, list)


def without_escapes(text: bytes) -> bytes:
    """A JSON text in which every quotation mark begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _outside_strings(text: bytes) -> bytes:
    """The rest of a JSON text without escapes when its keys and strings are removed; an unclosed one reaches to the end."""
    return b"".join(text.split(b'"')[::2])


def _count_nodes(text: bytes) -> int:
    """An upper bound of the number of values in a JSON text; empty containers and separators in strings count too much."""
    return text.count(b",") + text.count(b"{") + text.count(b"[") + 1


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether a JSON text has more values than the limit, by counting its separators."""
    if len(text) <= limit or _count_nodes(text) <= limit:
        return False
    text = without_escapes(text)
    # every value has at most two strings, its key and itself
    return text.count(b'"') > 4 * limit or _count_nodes(_outside_strings(text)) > limit


def count_keys(text: bytes) -> int:
    """The number of keys in a valid JSON text."""
    return _outside_strings(without_escapes(text)).count(b":")


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
