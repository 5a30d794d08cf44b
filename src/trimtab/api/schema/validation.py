"""Validation of a raw value by a structural schema, compiled once, with the words of kube-apiserver.

The order of complaints is that of the OpenAPI validator inside kube-apiserver: type, composites, text, format, number,
list, enumeration, object; members of an object by name, then what is required and missing.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from trimtab.api.field_errors import (
    go_number,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
    too_many,
    type_invalid,
)
from trimtab.api.schema.formats import FORMATS
from trimtab.api.schema.go_regexp import go_pattern
from trimtab.api.value import Raw
from trimtab.errors import Cause

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """A complaint and the node it is about, so that unchanged nodes can be forgiven."""

    cause: Cause
    node: Path


Place = tuple[Any, str | int] | None
"""Where a value stands: the place of what holds it, and its key there. Names are made only for complaints."""


def steps_to(place: Place) -> Path:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return tuple(reversed(steps))


def name_of(place: Place) -> str:
    """As Kubernetes writes it: `spec.items[0].name`."""
    name = ""
    for step in steps_to(place):
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else step
    return name


def _problem(cause: Cause, place: Place) -> Problem:
    return Problem(cause, steps_to(place))


Check = Callable[[Any, Place, list[Problem]], None]

_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_GO_FORMATS = {int: "int64", float: "float64"}
_UNPLACED = "<nil>"
_PASSED = 256
"""How many texts each place of a schema knows to fit: the same types, reasons and moments come again and again."""
_SHORT = 128
INTEGER_FORMATS = {"int32": range(-(1 << 31), 1 << 31), "int64": range(-(1 << 63), 1 << 63)}


def compile_check(schema: Raw) -> Check | None:
    """None when every value passes."""
    of_type, enumeration = _type(schema), _enumeration(schema)
    text, format_, number = _text(schema), _format(schema), _number(schema)
    in_order = (of_type, _composites(schema), text, format_, number, _items(schema), enumeration, _members(schema))
    steps = [step for step in in_order if step is not None]
    on_null = [step for step in (of_type, enumeration) if step is not None]
    if not steps:
        return None
    passed: set[str] = set()

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not str:
            for step in on_null if value is None else steps:
                step(value, place, problems)
        elif value not in passed:
            before = len(problems)
            for step in steps:
                step(value, place, problems)
            if len(problems) == before and len(value) <= _SHORT:
                if len(passed) >= _PASSED:
                    passed.clear()
                passed.add(value)

    return check


def types_in(schema: Raw) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string") and not schema.get("type"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _type(schema: Raw) -> Check | None:
    types, nullable, format_ = types_in(schema), bool(schema.get("nullable")), schema.get("format", "")
    if format_ not in FORMATS and format_ not in INTEGER_FORMATS:
        format_ = ""  # an unknown format says nothing
    if not types:
        return None
    exact = {python for python, name in _TYPE_NAMES.items() if name in types}
    numeric = "integer" in types or "number" in types
    expected = ",".join(types)

    def complain(place: Place, problems: list[Problem], wanted: str, got: str) -> None:
        text = f"{name_of(place)} in body must be of type {wanted}: {shown(got)}"
        problems.append(_problem(type_invalid(name_of(place) or _UNPLACED, got, text), place))

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
    return _problem(invalid(_UNPLACED, "", text), place)


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
        problems.append(_unplaced(f'"{name_of(place)}" must validate at least one schema (anyOf)', place))
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
        problems.append(_unplaced(f'"{name_of(place)}" must validate one and only one schema (oneOf). {how}', place))
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
            problems.append(_unplaced(f'"{name_of(place)}" must validate all the schemas (allOf){how}', place))

    return check


def _not(branch: Check | None) -> Check:
    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if not _collect(branch, value, place):
            problems.append(_unplaced(f'"{name_of(place)}" must not validate the schema (not)', place))

    return check


def _text(schema: Raw) -> Check | None:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is None and most is None and not pattern:
        return None
    matches = go_pattern(pattern) if pattern else None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not str:
            return
        if most is not None and len(value) > most:
            problems.append(_problem(too_long(name_of(place), most), place))
        elif least is not None and len(value) < least:
            text = f"{name_of(place)} in body should be at least {least} chars long"
            problems.append(_problem(invalid(name_of(place), value, text), place))
        elif matches is not None and not matches(value):
            text = f"{name_of(place)} in body should match '{pattern}'"
            problems.append(_problem(invalid(name_of(place), value, text), place))

    return check


def _format(schema: Raw) -> Check | None:
    name = schema.get("format", "")
    fits = FORMATS.get(name)
    if fits is None:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is str and not fits(value):
            text = f"{name_of(place)} in body must be of type {name}: {shown(value)}"
            problems.append(_problem(type_invalid(name_of(place), value, text), place))

    return check


def _out_of_range(value: float, first_type: str, format_: str) -> bool:
    if first_type != "integer" or format_ not in INTEGER_FORMATS:
        return False
    if isinstance(value, float) and not value.is_integer():
        return True
    return int(value) not in INTEGER_FORMATS[format_]


def _number(schema: Raw) -> Check | None:
    types, format_ = types_in(schema), schema.get("format", "")
    first_type = types[0] if types else ""
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    open_below, open_above = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))
    if first_type not in ("integer", "number") and least is None and most is None and step is None:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not int and type(value) is not float:
            return

        def complain(text: str) -> None:
            problems.append(
                _problem(invalid(name_of(place), value, f"{name_of(place)} in body should be {text}"), place)
            )

        if _out_of_range(value, first_type, format_):
            text = f"Checked value must be of type {first_type} with format {format_} in {name_of(place)}"
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
                inner(item, (place, i), problems)
        if least is not None and len(value) < least:
            text = f"{name_of(place)} in body should have at least {least} items"
            problems.append(_problem(invalid(name_of(place), len(value), text), place))
        if most is not None and len(value) > most:
            problems.append(_problem(too_many(name_of(place), len(value), most), place))
        if unique and len({shown(item) for item in value}) < len(value):
            text = f"{name_of(place)} in body shouldn't contain duplicates"
            problems.append(_problem(invalid(name_of(place), "", text), place))

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
        problems.append(_problem(not_supported(name_of(place), value, allowed), place))

    return check


_first = itemgetter(0)


def _size(schema: Raw) -> Callable[[int, Place, list[Problem]], bool] | None:
    """Whether an object has as many members as it may; one that has not is looked at no further."""
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is None and most is None:
        return None

    def fits(count: int, place: Place, problems: list[Problem]) -> bool:
        if least is not None and count < least:
            text = f"{name_of(place)} in body should have at least {least} properties"
            problems.append(_problem(invalid(name_of(place), count, text), place))
            return False
        if most is not None and count > most:
            problems.append(_problem(too_many(name_of(place), count, most), place))
            return False
        return True

    return fits


def _members(schema: Raw) -> Check | None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    rest = compile_check(additional) if isinstance(additional, dict) else None
    needed = tuple(schema.get("required") or ())
    all_needed = frozenset(needed)
    fits = _size(schema)
    inners = {key: inner for key, child in properties.items() if (inner := compile_check(child)) is not None}
    if not inners and rest is None and not needed and fits is None:
        return None

    def check(value: Any, place: Place, problems: list[Problem]) -> None:
        if type(value) is not dict:
            return
        if fits is not None and not fits(len(value), place, problems):
            return
        if rest is not None:
            for key, item in value.items():
                if key not in properties:
                    rest(item, (place, key), problems)
        before = so_far = len(problems)
        complained: list[tuple[str, list[Problem]]] = []
        for key, item in value.items():
            if key in inners:
                inners[key](item, (place, key), problems)
                if len(problems) > so_far:
                    complained.append((key, problems[so_far:]))
                    so_far = len(problems)
        if len(complained) > 1:  # in the order of their names
            problems[before:] = [problem for _, some in sorted(complained, key=_first) for problem in some]
        if not value.keys() >= all_needed:
            problems.extend(_problem(required(name_of((place, key))), place) for key in needed if key not in value)

    return check
