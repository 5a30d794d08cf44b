"""Checks what a script returned and converts it to the result of the operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from trimtab.api.paths import string_at
from trimtab.api.quantity import InvalidQuantity, canonical_form
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.interpret.lua.sandbox import ScriptResult
from trimtab.interpret.operations import Operation


class InvalidScriptResult(Exception):
    """A script returned a value of the wrong type."""


def parse_script_result(operation: Operation, result: ScriptResult, arguments: Sequence[Any]) -> Any:
    """The result of an operation from a hook's return values; raises `InvalidScriptResult`."""
    first, second = (*result.values, None, None)[:2]
    if operation is Operation.REPLICA:
        return _parse_replicas(first), None if second is None else _parse_requirements(second)
    return _PARSERS[operation](first, arguments)


def _parse_replicas(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidScriptResult(f"the number of replicas must be a number, not {_describe_type(value)}")
    return int(value)


def _describe_type(value: Any) -> str:
    if value is None:
        return "nil"
    return {bool: "a boolean", str: "a string", dict: "a table", list: "a list"}.get(type(value), "a number")


def _require_mapping(value: Any, what: str) -> Raw:
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise InvalidScriptResult(f"{what} must be a table with names as keys, not {_describe_type(value)}")
    return value


def _require_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidScriptResult(f"{what} must be a list, not {_describe_type(value)}")
    return value


def _parse_quantities(listed: Raw) -> dict[str, str]:
    try:
        return {name: canonical_form(amount) for name, amount in listed.items()}
    except (InvalidQuantity, TypeError) as error:
        raise InvalidScriptResult(f"resourceRequest: {error}") from error


def _parse_requirements(value: Any) -> Raw:
    given = without_empty_tables(_require_mapping(value, "the requirements"))
    known: Raw = {key: given[key] for key in ("nodeClaim", "namespace", "priorityClassName") if key in given}
    if "resourceRequest" in given:
        known["resourceRequest"] = _parse_quantities(_require_mapping(given["resourceRequest"], "resourceRequest"))
    return known


def _parse_components(value: Any, _: Sequence[Any]) -> list[Raw] | None:
    return None if value is None else [_parse_component(entry) for entry in _require_list(value, "the components")]


def _parse_component(entry: Any) -> Raw:
    given = _require_mapping(entry, "a component")
    if not string_at(given, "name"):
        raise InvalidScriptResult("a component has no name")
    known: Raw = {"name": given["name"], "replicas": _parse_replicas(given.get("replicas", 0))}
    if given.get("replicaRequirements") is not None:
        known["replicaRequirements"] = _parse_requirements(given["replicaRequirements"])
    return known


def _parse_modified_object(value: Any, arguments: Sequence[Any]) -> Raw:
    references = [argument for argument in arguments if isinstance(argument, dict)]
    return restore_empty_tables(_require_mapping(value, "the object"), references)


def _parse_object(value: Any, _: Sequence[Any]) -> Raw:
    return without_empty_tables(_require_mapping(value, "the object"))


def _parse_status(value: Any, _: Sequence[Any]) -> Raw:
    return without_empty_tables(_require_mapping(value, "the status"))


def _parse_health(value: Any, _: Sequence[Any]) -> bool:
    if not isinstance(value, bool):
        raise InvalidScriptResult(f"the health must be true or false, not {_describe_type(value)}")
    return value


def _parse_dependencies(value: Any, _: Sequence[Any]) -> list[Raw]:
    return [_parse_dependency(entry) for entry in _require_list(value, "the dependencies")]


def _parse_dependency(entry: Any) -> Raw:
    given = without_empty_tables(_require_mapping(entry, "a dependency"))
    fields = ("apiVersion", "kind", "namespace", "name", "labelSelector")
    known = {key: given[key] for key in fields if given.get(key) not in (None, "")}
    for field in ("apiVersion", "kind"):
        if not string_at(known, field):
            raise InvalidScriptResult(f"a dependency has no {field}")
    if not string_at(known, "name") and "labelSelector" not in known:
        raise InvalidScriptResult(f"the dependency on a {known['kind']} has neither a name nor a labelSelector")
    if "labelSelector" in known:
        _check_selector(known["labelSelector"])
    return known


def _check_selector(selector: Any) -> None:
    try:
        rules = msgspec.convert(selector, LabelSelector).match_expressions
    except msgspec.ValidationError as error:
        raise InvalidScriptResult(f"a dependency's labelSelector is wrong: {error}") from error
    for rule in rules:
        if not rule.has_known_operator():
            raise InvalidScriptResult(f"a dependency's labelSelector is wrong: unknown operator {rule.operator!r}")


_PARSERS: Mapping[Operation, Callable[[Any, Sequence[Any]], Any]] = {
    Operation.COMPONENT: _parse_components,
    Operation.RETAIN: _parse_modified_object,
    Operation.REVISE_REPLICA: _parse_modified_object,
    Operation.AGGREGATE_STATUS: _parse_object,
    Operation.STATUS: _parse_status,
    Operation.HEALTH: _parse_health,
    Operation.DEPENDENCY: _parse_dependencies,
}


Path = tuple[str, ...]


def restore_empty_tables(result: Raw, references: Sequence[Raw]) -> Raw:
    """`result` with each empty table as in the references at that path; those without a reference are dropped."""
    empty: dict[Path, Any] = {}
    for reference in references:
        _record_empty_tables(reference, (), empty)
    return {key: kept for key, value in result.items() if (kept := _restore_value(value, (key,), empty)) is not None}


def without_empty_tables(result: Raw) -> Raw:
    """`result` without its empty tables: it is unknown whether they were lists or mappings."""
    return restore_empty_tables(result, ())


def _record_empty_tables(node: Any, path: Path, empty: dict[Path, Any]) -> None:
    """Array indexes are not part of a path: what one element had, another may have."""
    if isinstance(node, dict | list) and not node:
        if empty.get(path) != {}:
            empty[path] = node
    elif isinstance(node, dict):
        for key, value in node.items():
            _record_empty_tables(value, (*path, key), empty)
    elif isinstance(node, list):
        for value in node:
            _record_empty_tables(value, path, empty)


def _restore_value(value: Any, path: Path, empty: dict[Path, Any]) -> Any:
    if value == []:
        return empty.get(path)
    if isinstance(value, dict):
        return {
            key: kept
            for key, inner in value.items()
            if (kept := _restore_value(inner, (*path, key), empty)) is not None
        }
    if isinstance(value, list):
        return [kept for inner in value if (kept := _restore_value(inner, path, empty)) is not None]
    return value
