"""RFC 6902 patches with the limits and errors of kube-apiserver."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from trimtab.api.limits import MAX_DEPTH, MAX_JSON_PATCH_COPIED_BYTES, MAX_JSON_PATCH_OPERATIONS
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Invalid, TooLarge

_MISSING = object()


class _OperationFailed(Exception):
    """An operation cannot be applied to this document."""


def _parse_pointer(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or not pointer.startswith("/") or pointer.count("/") > MAX_DEPTH:
        raise _OperationFailed
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _parse_index(step: str, size: int) -> int:
    if not (step.isascii() and step.isdigit()) or (step[0] == "0" and step != "0") or len(step) > 9:
        raise _OperationFailed
    index = int(step)
    if index >= size:
        raise _OperationFailed
    return index


def _child(node: Any, step: str) -> Any:
    if isinstance(node, dict):
        return node.get(step, _MISSING)
    if isinstance(node, list):
        return node[_parse_index(step, len(node))]
    raise _OperationFailed


def _find(node: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        node = _child(node, step)
        if node is _MISSING:
            raise _OperationFailed
    return node


def _encoded_size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # nested more deeply than can be encoded
        raise _OperationFailed from None


class _Draft:
    """A document that changes step by step: a container is copied when it is first changed, all others are shared."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._owned: dict[int, Any] = {}
        """The copies, by identity; they are kept, so that no other object gets their identity."""
        self.copied_bytes = 0

    def _own(self, node: Any) -> Any:
        if id(node) in self._owned:
            return node
        copied = dict(node) if isinstance(node, dict) else list(node)
        self._owned[id(copied)] = copied
        return copied

    def share(self, value: Any) -> None:
        """Copy the containers of a value again before they change: it is now in the document twice."""
        pending = [value]
        while pending:
            node = pending.pop()
            if isinstance(node, dict | list):
                self._owned.pop(id(node), None)
                pending.extend(node.values() if isinstance(node, dict) else node)

    def change_at(self, steps: Sequence[str], change: Callable[[Any, str], None]) -> None:
        """Change the container of the last step; it and what contains it are copies then."""
        if not isinstance(_find(self.document, steps[:-1]), dict | list):
            raise _OperationFailed
        node = self.document = self._own(self.document)
        for step in steps[:-1]:
            at = step if isinstance(node, dict) else _parse_index(step, len(node))
            node[at] = node = self._own(node[at])
        change(node, steps[-1])


def _add(value: Any) -> Callable[[Any, str], None]:
    def change(node: Any, step: str) -> None:
        if isinstance(node, dict):
            node[step] = value
        else:
            node.insert(len(node) if step == "-" else _parse_index(step, len(node) + 1), value)

    return change


def _replace(value: Any) -> Callable[[Any, str], None]:
    def change(node: Any, step: str) -> None:
        # kube-apiserver replaces an absent member of an object as well, against the RFC.
        node[step if isinstance(node, dict) else _parse_index(step, len(node))] = value

    return change


def _remove(node: Any, step: str) -> None:
    if _child(node, step) is _MISSING:
        raise _OperationFailed
    del node[step if isinstance(node, dict) else _parse_index(step, len(node))]


def json_equal(left: Any, right: Any) -> bool:
    """Equal as JSON values: true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


def _test_value(document: Any, operation: Raw) -> None:
    steps = _parse_pointer(operation.get("path"))
    parent = _find(document, steps[:-1])
    found = _child(parent, steps[-1])
    wanted = operation.get("value")
    if found is _MISSING and wanted is None:
        return  # kube-apiserver treats an absent member as null here
    if found is _MISSING or not json_equal(found, wanted):
        raise _OperationFailed


def _apply_operation(draft: _Draft, operation: Raw) -> None:
    name = operation.get("op")
    path = _parse_pointer(operation.get("path"))
    if name in ("add", "replace"):
        if "value" not in operation:
            raise _OperationFailed
        change = _add if name == "add" else _replace
        draft.change_at(path, change(operation["value"]))
    elif name == "remove":
        draft.change_at(path, _remove)
    elif name == "test":
        _test_value(draft.document, operation)
    elif name in ("move", "copy"):
        _move_or_copy(draft, name, _parse_pointer(operation.get("from")), path)
    else:
        raise _OperationFailed


def _move_or_copy(draft: _Draft, name: str, source: list[str], path: list[str]) -> None:
    value = _find(draft.document, source)
    if name == "move":
        if path[: len(source)] == source and len(path) > len(source):
            raise _OperationFailed
        draft.change_at(source, _remove)
    else:
        draft.copied_bytes += _encoded_size(value)
        if draft.copied_bytes > MAX_JSON_PATCH_COPIED_BYTES:
            raise _OperationFailed
        draft.share(value)
    draft.change_at(path, _add(value))


def rejection_error() -> Invalid:
    """The error that kube-apiserver returns for every failed operation."""
    return Invalid("the server rejected our request due to an error in our request", details=True)


def apply_json_patch(document: Raw, patch: Any) -> Any:
    """A copy of `document` with every operation of `patch` applied in order."""
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        found = "object" if isinstance(patch, dict) else type(patch).__name__
        raise BadRequest(f"error decoding patch: json: cannot unmarshal {found} into Go value of type jsonpatch.Patch")
    if len(patch) > MAX_JSON_PATCH_OPERATIONS:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {len(patch)}",
            details=False,
        )
    draft = _Draft(document)
    for operation in patch:
        try:
            _apply_operation(draft, operation)
        except (_OperationFailed, RecursionError):
            raise rejection_error() from None
    return draft.document
