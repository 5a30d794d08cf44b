"""JSON patches of override policies, applied one operation at a time so that an error can name its path."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.errors import Invalid


class InvalidPatch(ValueError):
    """An operation cannot be applied to this document."""


class PatchOperation(NamedTuple):
    operator: str
    path: str
    value: Any = None


def escape_pointer_segment(key: str) -> str:
    """A key as one segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def value_at_pointer(document: Any, path: str) -> Any:
    """The value at a JSON pointer; a missing step is an error."""
    if not path.startswith("/"):
        raise InvalidPatch(f"the path {path!r} must start with '/'")
    for segment in path[1:].split("/"):
        key = segment.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and key.isdecimal() and int(key) < len(document):
            document = document[int(key)]
        else:
            raise InvalidPatch(f"the path {path} does not exist: there is no {key!r}")
    return document


def apply_patch(document: Any, steps: Sequence[PatchOperation]) -> Any:
    """A copy of the document with all operations applied in order."""
    for operation in steps:
        if operation.operator not in ("add", "remove", "replace"):
            raise InvalidPatch(f"the operator {operation.operator!r} is none of add, remove, replace")
        value = {} if operation.operator == "remove" else {"value": operation.value}
        try:
            if operation.operator == "replace":
                value_at_pointer(document, operation.path)  # unlike kube-apiserver, overriders refuse an absent member
            document = apply_json_patch(document, [{"op": operation.operator, "path": operation.path, **value}])
        except (Invalid, InvalidPatch) as rejected:
            raise InvalidPatch(_error_message(document, operation)) from rejected
    return document


def _error_message(document: Any, operation: PatchOperation) -> str:
    """Why this operation failed, in the words of upstream's patch library: people search the web for them."""
    operator, path = operation.operator, operation.path
    parent, _, last = path.rpartition("/")
    try:
        container = value_at_pointer(document, parent) if parent or not path.startswith("/") else document
    except InvalidPatch:
        container = None
    if not isinstance(container, dict | list):
        quoted = path if operator == "replace" else f'"{path}"'
        return f"{operator} operation does not apply: doc is missing path: {quoted}: missing value"
    if operator == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: missing value"
    key = last.replace("~1", "/").replace("~0", "~")
    if isinstance(container, dict):
        why = f"unable to remove nonexistent key: {key}: missing value"
    elif key.lstrip("-").isdecimal():
        why = f"Unable to access invalid index: {key}: invalid index referenced"
    else:
        why = f'strconv.Atoi: parsing "{key}": invalid syntax'
        why = f"value was not a proper array index: '{key}': {why}" if operator == "add" else why
    return f"error in {operator} for path: '{path}': {why}"
