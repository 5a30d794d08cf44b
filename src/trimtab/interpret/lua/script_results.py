"""Checks what a script returned and converts it to the result of the operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from trimtab.api.paths import text
from trimtab.api.quantity import BadQuantity, canonical
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.interpret.lua.sandbox import Ran
from trimtab.interpret.operations import Operation


class BadAnswer(Exception):
    """A script returned a value of the wrong type."""


def read_answer(operation: Operation, ran: Ran, arguments: Sequence[Any]) -> Any:
    """The result of an operation from a hook's return values; raises `InvalidScriptResult`."""
    first, second = (*ran.values, None, None)[:2]
    if operation is Operation.REPLICA:
        return _whole_number(first), None if second is None else _requirements(second)
    return _READERS[operation](first, arguments)


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadAnswer(f"the number of replicas must be a number, not {_kind(value)}")
    return int(value)


def _kind(value: Any) -> str:
    if value is None:
        return "nil"
    return {bool: "a boolean", str: "a string", dict: "a table", list: "a list"}.get(type(value), "a number")


def _mapping(value: Any, what: str) -> Raw:
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise BadAnswer(f"{what} must be a table with names as keys, not {_kind(value)}")
    return value


def _listing(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadAnswer(f"{what} must be a list, not {_kind(value)}")
    return value


def _quantities(listed: Raw) -> dict[str, str]:
    try:
        return {name: canonical(amount) for name, amount in listed.items()}
    except (BadQuantity, TypeError) as error:
        raise BadAnswer(f"resourceRequest: {error}") from error


def _requirements(value: Any) -> Raw:
    given = without_empty(_mapping(value, "the requirements"))
    known: Raw = {key: given[key] for key in ("nodeClaim", "namespace", "priorityClassName") if key in given}
    if "resourceRequest" in given:
        known["resourceRequest"] = _quantities(_mapping(given["resourceRequest"], "resourceRequest"))
    return known


def _components(value: Any, _: Sequence[Any]) -> list[Raw] | None:
    return None if value is None else [_component(entry) for entry in _listing(value, "the components")]


def _component(entry: Any) -> Raw:
    given = _mapping(entry, "a component")
    if not text(given, "name"):
        raise BadAnswer("a component has no name")
    known: Raw = {"name": given["name"], "replicas": _whole_number(given.get("replicas", 0))}
    if given.get("replicaRequirements") is not None:
        known["replicaRequirements"] = _requirements(given["replicaRequirements"])
    return known


def _same_kind_of_object(value: Any, arguments: Sequence[Any]) -> Raw:
    references = [argument for argument in arguments if isinstance(argument, dict)]
    return restored(_mapping(value, "the object"), references)


def _object(value: Any, _: Sequence[Any]) -> Raw:
    return without_empty(_mapping(value, "the object"))


def _status(value: Any, _: Sequence[Any]) -> Raw:
    return without_empty(_mapping(value, "the status"))


def _health(value: Any, _: Sequence[Any]) -> bool:
    if not isinstance(value, bool):
        raise BadAnswer(f"the health must be true or false, not {_kind(value)}")
    return value


def _dependencies(value: Any, _: Sequence[Any]) -> list[Raw]:
    return [_dependency(entry) for entry in _listing(value, "the dependencies")]


def _dependency(entry: Any) -> Raw:
    given = without_empty(_mapping(entry, "a dependency"))
    fields = ("apiVersion", "kind", "namespace", "name", "labelSelector")
    known = {key: given[key] for key in fields if given.get(key) not in (None, "")}
    for field in ("apiVersion", "kind"):
        if not text(known, field):
            raise BadAnswer(f"a dependency has no {field}")
    if not text(known, "name") and "labelSelector" not in known:
        raise BadAnswer(f"the dependency on a {known['kind']} has neither a name nor a labelSelector")
    if "labelSelector" in known:
        _check_selector(known["labelSelector"])
    return known


def _check_selector(selector: Any) -> None:
    try:
        msgspec.convert(selector, LabelSelector).matches({})
    except (msgspec.ValidationError, KeyError) as error:
        raise BadAnswer(f"a dependency's labelSelector is wrong: {error}") from error


_READERS: Mapping[Operation, Callable[[Any, Sequence[Any]], Any]] = {
    Operation.COMPONENT: _components,
    Operation.RETAIN: _same_kind_of_object,
    Operation.REVISE_REPLICA: _same_kind_of_object,
    Operation.AGGREGATE_STATUS: _object,
    Operation.STATUS: _status,
    Operation.HEALTH: _health,
    Operation.DEPENDENCY: _dependencies,
}


Path = tuple[str, ...]


def restored(result: Raw, references: Sequence[Raw]) -> Raw:
    """`result` with each empty table as in the references at that path; those without a reference are dropped."""
    empty: dict[Path, Any] = {}
    for reference in references:
        _note_empty(reference, (), empty)
    return {key: kept for key, value in result.items() if (kept := _restore(value, (key,), empty)) is not None}


def without_empty(result: Raw) -> Raw:
    """`result` without its empty tables: it is unknown whether they were lists or mappings."""
    return restored(result, ())


def _note_empty(thing: Any, path: Path, empty: dict[Path, Any]) -> None:
    """Array indexes are not part of a path: what one element had, another may have."""
    if isinstance(thing, dict | list) and not thing:
        if empty.get(path) != {}:
            empty[path] = thing
    elif isinstance(thing, dict):
        for key, value in thing.items():
            _note_empty(value, (*path, key), empty)
    elif isinstance(thing, list):
        for value in thing:
            _note_empty(value, path, empty)


def _restore(value: Any, path: Path, empty: dict[Path, Any]) -> Any:
    if value == []:
        return empty.get(path)
    if isinstance(value, dict):
        return {key: kept for key, inner in value.items() if (kept := _restore(inner, (*path, key), empty)) is not None}
    if isinstance(value, list):
        return [kept for inner in value if (kept := _restore(inner, path, empty)) is not None]
    return value
