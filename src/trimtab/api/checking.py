"""Validation of a raw value by a structural schema, compiled once, with the words of kube-apiserver.

The order of complaints is that of the OpenAPI validator inside kube-apiserver: type, composites, text, format, number,
list, enumeration, object; members of an object by name, then what is required and missing.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trimtab.api.complaints import (
    go_number,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
    too_many,
    type_invalid,
)
from trimtab.api.formats import FORMATS, go_pattern
from trimtab.api.value import Raw
from trimtab.errors import Cause

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """A complaint and the node it is about, so that unchanged nodes can be forgiven."""

    cause: Cause
    node: Path


class Place(NamedTuple):
    """Where a value stands: its name in texts, and the steps that lead there."""

    name: str = ""
    node: Path = ()

    def member(self, key: str) -> "Place":
        return Place(f"{self.name}.{key}" if self.name else key, (*self.node, key))

    def item(self, index: int) -> "Place":
        return Place(f"{self.name}[{index}]", (*self.node, index))


Check = Callable[[Any, Place, list[Problem]], None]

_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_GO_FORMATS = {int: "int64", float: "float64"}
_UNPLACED = "<nil>"
_INTEGER_FORMATS = {"int32": range(-(1 << 31), 1 << 31), "int64": range(-(1 << 63), 1 << 63)}


def compile_check(schema: Raw) -> Check | None:
    """None when every value passes."""
    on_null = [s for s in (_type(schema), _enumeration(schema)) if s is not None]
    makers = (_type, _composites, _text, _format, _number, _items, _enumeration, _members)
    steps = [s for s in (make(schema) for make in makers) if s is not None]
    if not steps:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        for step in on_null if value is None else steps:
            step(value, place, problems)

    return check


def _types(schema: Raw) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string") and not schema.get("type"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _type(schema: Raw) -> Check | None:
    types, nullable, format_ = _types(schema), bool(schema.get("nullable")), schema.get("format", "")
    if format_ not in FORMATS and format_ not in _INTEGER_FORMATS:
        format_ = ""  # an unknown format says nothing
    if not types:
        return None
    exact = {python for python, name in _TYPE_NAMES.items() if name in types}
    numeric = "integer" in types or "number" in types
    expected = ",".join(types)

    def complain(place: Place, problems: list[Problem], wanted: str, got: str) -> None:
        text = f"{place.name} in body must be of type {wanted}: {shown(got)}"
        problems.append(Problem(type_invalid(place.name or _UNPLACED, got, text), place.node))

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        kind = type(value)
        if kind in exact:
            return
        if value is None:
            if not nullable:
                complain(place, problems, expected, "null")
            return
        if kind is float and value.is_integer() and "integer" in types:
            return
        if kind is int and "number" in types:
            return
        if format_ and kind not in (str, list):
            complain(place, problems, format_, _GO_FORMATS.get(kind, ""))
        elif numeric or not format_ or kind not in (str, list):
            complain(place, problems, expected, _TYPE_NAMES[kind])

    return check


def _collect(check: Check | None, value: Any, place: Place) -> list[Problem]:
    problems: list[Problem] = []
    if check is not None:
        check(value, place, problems)
    return problems


def _unplaced(text: str, place: Place) -> Problem:
    return Problem(invalid(_UNPLACED, "", text), place.node)


def _composites(schema: Raw) -> Check | None:
    makers = (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of))
    steps = [make([compile_check(s) for s in schema[key]]) for key, make in makers if schema.get(key)]
    if schema.get("not"):
        steps.append(_not(compile_check(schema["not"])))
    if not steps:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        for step in steps:
            step(value, place, problems)

    return check


def _any_of(branches: Sequence[Check | None]) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        failures: list[list[Problem]] = []
        for branch in branches:
            found = _collect(branch, value, place)
            if not found:
                return
            failures.append(found)
        problems.append(_unplaced(f'"{place.name}" must validate at least one schema (anyOf)', place))
        nearest: list[Problem] = min(failures, key=len)
        problems.extend(nearest)

    return check


def _one_of(branches: Sequence[Check | None]) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        results = [_collect(branch, value, place) for branch in branches]
        passed = sum(1 for found in results if not found)
        if passed == 1:
            return
        how = f"Found {passed} valid alternatives" if passed else "Found none valid"
        problems.append(_unplaced(f'"{place.name}" must validate one and only one schema (oneOf). {how}', place))
        if not passed:
            nearest: list[Problem] = min(results, key=len)
            problems.extend(nearest)

    return check


def _all_of(branches: Sequence[Check | None]) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        results = [_collect(branch, value, place) for branch in branches]
        passed = sum(1 for found in results if not found)
        for found in results:
            problems.extend(found)
        if passed < len(results):
            how = "" if passed else ". None validated"
            problems.append(_unplaced(f'"{place.name}" must validate all the schemas (allOf){how}', place))

    return check


def _not(branch: Check | None) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if not _collect(branch, value, place):
            problems.append(_unplaced(f'"{place.name}" must not validate the schema (not)', place))

    return check


def _text(schema: Raw) -> Check | None:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is None and most is None and not pattern:
        return None
    matcher = go_pattern(pattern) if pattern else None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not str:
            return
        if most is not None and len(value) > most:
            problems.append(Problem(too_long(place.name, most), place.node))
        elif least is not None and len(value) < least:
            text = f"{place.name} in body should be at least {least} chars long"
            problems.append(Problem(invalid(place.name, value, text), place.node))
        elif matcher is not None and not matcher.search(value):
            text = f"{place.name} in body should match '{pattern}'"
            problems.append(Problem(invalid(place.name, value, text), place.node))

    return check


def _format(schema: Raw) -> Check | None:
    name = schema.get("format", "")
    fits = FORMATS.get(name)
    if fits is None:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is str and not fits(value):
            text = f"{place.name} in body must be of type {name}: {shown(value)}"
            problems.append(Problem(type_invalid(place.name, value, text), place.node))

    return check


def _out_of_range(value: float, first_type: str, format_: str) -> bool:
    if first_type != "integer" or format_ not in _INTEGER_FORMATS:
        return False
    if isinstance(value, float) and not value.is_integer():
        return True
    return int(value) not in _INTEGER_FORMATS[format_]


def _number(schema: Raw) -> Check | None:
    types, format_ = _types(schema), schema.get("format", "")
    first_type = types[0] if types else ""
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    open_below, open_above = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))
    if first_type not in ("integer", "number") and least is None and most is None and step is None:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not int and type(value) is not float:
            return

        def complain(text: str) -> None:
            problems.append(Problem(invalid(place.name, value, f"{place.name} in body should be {text}"), place.node))

        if _out_of_range(value, first_type, format_):
            text = f"Checked value must be of type {first_type} with format {format_} in {place.name}"
            problems.append(_unplaced(text, place))
        bound = int if type(value) is int else float  # a whole number is compared with the whole part of a bound
        if step is not None and value % step:
            complain(f"a multiple of {go_number(step)}")
        if least is not None and (value <= bound(least) if open_below else value < bound(least)):
            complain(f"greater than {'' if open_below else 'or equal to '}{go_number(bound(least))}")
        if most is not None and (value >= bound(most) if open_above else value > bound(most)):
            complain(f"less than {'' if open_above else 'or equal to '}{go_number(bound(most))}")

    return check


def _items(schema: Raw) -> Check | None:
    inner = compile_check(schema["items"]) if isinstance(schema.get("items"), dict) else None
    least, most, unique = schema.get("minItems"), schema.get("maxItems"), bool(schema.get("uniqueItems"))
    if inner is None and least is None and most is None and not unique:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not list:
            return
        if inner is not None:
            for i, item in enumerate(value):
                inner(item, place.item(i), problems)
        if least is not None and len(value) < least:
            text = f"{place.name} in body should have at least {least} items"
            problems.append(Problem(invalid(place.name, len(value), text), place.node))
        if most is not None and len(value) > most:
            problems.append(Problem(too_many(place.name, len(value), most), place.node))
        if unique and len({shown(item) for item in value}) < len(value):
            text = f"{place.name} in body shouldn't contain duplicates"
            problems.append(Problem(invalid(place.name, "", text), place.node))

    return check


def _enumeration(schema: Raw) -> Check | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    texts = frozenset(a for a in allowed if isinstance(a, str))

    def listed(value: Any) -> bool:
        if type(value) is float:  # compared after conversion, as Go does
            return any(type(a) in (int, float) and type(a)(value) == a for a in allowed)
        return any(type(a) is type(value) and a == value for a in allowed)

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if (value in texts) if type(value) is str else listed(value):
            return
        problems.append(Problem(not_supported(place.name, value, allowed), place.node))

    return check


def _members(schema: Raw) -> Check | None:
    known = {key: compile_check(child) for key, child in sorted((schema.get("properties") or {}).items())}
    additional = schema.get("additionalProperties")
    rest = compile_check(additional) if isinstance(additional, dict) else None
    needed = tuple(schema.get("required") or ())
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    inners = {key: inner for key, inner in known.items() if inner is not None}
    if not inners and rest is None and not needed and least is None and most is None and additional is not False:
        return None

    def check_size(count: int, place: Place, problems: list[Problem]) -> bool:
        if least is not None and count < least:
            text = f"{place.name} in body should have at least {least} properties"
            problems.append(Problem(invalid(place.name, count, text), place.node))
            return False
        if most is not None and count > most:
            problems.append(Problem(too_many(place.name, count, most), place.node))
            return False
        return True

    def check_rest(value: Raw, place: Place, problems: list[Problem]) -> None:
        for key, item in value.items():
            if key in known:
                continue
            if additional is False:
                problems.append(_unplaced(f"{place.name}.{key} in body is a forbidden property", place))
            elif rest is not None:
                rest(item, place.member(key), problems)

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not dict:
            return
        if not check_size(len(value), place, problems):
            return
        if rest is not None or additional is False:
            check_rest(value, place, problems)
        for key, inner in inners.items():
            if key in value:
                inner(value[key], place.member(key), problems)
        problems.extend(Problem(required(place.member(key).name), place.node) for key in needed if key not in value)

    return check
