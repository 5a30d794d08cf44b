"""RFC 6902 patches with the limits and errors of kube-apiserver."""

from collections.abc import Callable, Sequence
from typing import Any

from trimtab.api.limits import MAX_JSON_PATCH_COPIED_BYTES, MAX_JSON_PATCH_OPERATIONS
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Invalid, TooLarge

_MISSING = object()


class _OperationFailed(Exception):
    """An operation cannot be applied to this document."""


def _parse_pointer(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or not pointer.startswith("/"):
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


def _change_at(node: Any, steps: Sequence[str], change: Callable[[Any, str], Any]) -> Any:
    """A copy of `node` in which the container of the last step is changed; what is off the path is shared."""
    if len(steps) == 1:
        return change(node, steps[0])
    inner = _child(node, steps[0])
    if inner is _MISSING:
        raise _OperationFailed
    changed = _change_at(inner, steps[1:], change)
    if isinstance(node, dict):
        return {**node, steps[0]: changed}
    at = _parse_index(steps[0], len(node))
    return [*node[:at], changed, *node[at + 1 :]]


def _add(value: Any) -> Callable[[Any, str], Any]:
    def change(node: Any, step: str) -> Any:
        if isinstance(node, dict):
            return {**node, step: value}
        if isinstance(node, list):
            at = len(node) if step == "-" else _parse_index(step, len(node) + 1)
            return [*node[:at], value, *node[at:]]
        raise _OperationFailed

    return change


def _replace(value: Any) -> Callable[[Any, str], Any]:
    def change(node: Any, step: str) -> Any:
        if _child(node, step) is _MISSING:
            raise _OperationFailed
        if isinstance(node, dict):
            return {**node, step: value}
        at = _parse_index(step, len(node))
        return [*node[:at], value, *node[at + 1 :]]

    return change


def _remove(node: Any, step: str) -> Any:
    if _child(node, step) is _MISSING:
        raise _OperationFailed
    if isinstance(node, dict):
        return {key: value for key, value in node.items() if key != step}
    at = _parse_index(step, len(node))
    return [*node[:at], *node[at + 1 :]]


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


def _apply_operation(document: Any, operation: Raw, copied: list[int]) -> Any:
    name = operation.get("op")
    path = _parse_pointer(operation.get("path"))
    if name in ("add", "replace"):
        if "value" not in operation:
            raise _OperationFailed
        change = _add if name == "add" else _replace
        return _change_at(document, path, change(operation["value"]))
    if name == "remove":
        return _change_at(document, path, _remove)
    if name == "test":
        _test_value(document, operation)
        return document
    if name not in ("move", "copy"):
        raise _OperationFailed
    source = _parse_pointer(operation.get("from"))
    value = _find(document, source)
    if name == "move":
        if path[: len(source)] == source and len(path) > len(source):
            raise _OperationFailed
        document = _change_at(document, source, _remove)
    else:
        copied[0] += len(repr(value))
        if copied[0] > MAX_JSON_PATCH_COPIED_BYTES:
            raise _OperationFailed
    return _change_at(document, path, _add(value))


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
            f"The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {len(patch)}", details=False
        )
    result: Any = document
    copied = [0]
    for operation in patch:
        try:
            result = _apply_operation(result, operation, copied)
        except _OperationFailed:
            raise rejection_error() from None
    return result
