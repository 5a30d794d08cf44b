"""Validation of a raw value by a structural schema, compiled once, with the messages of kube-apiserver.

The order of messages is that of the OpenAPI validator inside kube-apiserver: type, composites, string, format, number,
list, enumeration, object; members of an object by name, then required members that are missing.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from trimtab.api.field_errors import (
    format_go_number,
    format_value,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from trimtab.api.schema.formats import FORMATS
from trimtab.api.schema.go_regexp import StepLimitExceeded, go_matcher
from trimtab.api.value import Raw
from trimtab.errors import Cause

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """A cause and the path of the node it is about, so that problems of unchanged nodes can be dropped."""

    cause: Cause
    node: Path


LazyPath = tuple[Any, str | int] | None
"""The path of a value: the path of its container and its key there. Names are formatted only for problems."""


def path_steps(path: LazyPath) -> Path:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))


def format_path(path: LazyPath) -> str:
    """A path as Kubernetes writes it: `spec.items[0].name`."""
    name = ""
    for step in path_steps(path):
        name += f"[{step}]" if isinstance(step, int) else f".{step}" if name else step
    return name


def _problem_at(cause: Cause, path: LazyPath) -> Problem:
    return Problem(cause, path_steps(path))


Check = Callable[[Any, LazyPath, list[Problem]], None]

_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_GO_FORMATS = {int: "int64", float: "float64"}
_NO_FIELD = "<nil>"
_MAX_CACHED_TEXTS = 256
"""How many valid texts each node of a schema remembers: the same types, reasons and times occur again and again."""
_MAX_CACHED_TEXT_LENGTH = 128
INTEGER_FORMATS = {"int32": range(-(1 << 31), 1 << 31), "int64": range(-(1 << 63), 1 << 63)}


def compile_check(schema: Raw) -> Check | None:
    """A function that validates a value; None when every value is valid."""
    of_type, enumeration = _type_check(schema), _enum_check(schema)
    text, format_, number = _string_check(schema), _format_check(schema), _number_check(schema)
    in_order = (
        of_type,
        _composite_check(schema),
        text,
        format_,
        number,
        _array_check(schema),
        enumeration,
        _object_check(schema),
    )
    steps = [step for step in in_order if step is not None]
    on_null = [step for step in (of_type, enumeration) if step is not None]
    if not steps:
        return None
    passed: set[str] = set()

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if type(value) is not str:
            for step in on_null if value is None else steps:
                step(value, path, problems)
        elif value not in passed:
            before = len(problems)
            for step in steps:
                step(value, path, problems)
            if len(problems) == before and len(value) <= _MAX_CACHED_TEXT_LENGTH:
                if len(passed) >= _MAX_CACHED_TEXTS:
                    passed.clear()
                passed.add(value)

    return check


def allowed_types(schema: Raw) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string") and not schema.get("type"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _type_check(schema: Raw) -> Check | None:
    types, nullable, format_ = allowed_types(schema), bool(schema.get("nullable")), schema.get("format", "")
    if format_ not in FORMATS and format_ not in INTEGER_FORMATS:
        format_ = ""  # an unknown format has no effect
    if not types:
        return None
    exact = {python for python, name in _TYPE_NAMES.items() if name in types}
    numeric = "integer" in types or "number" in types
    expected = ",".join(types)

    def report(path: LazyPath, problems: list[Problem], wanted: str, got: str) -> None:
        text = f"{format_path(path)} in body must be of type {wanted}: {format_value(got)}"
        problems.append(_problem_at(type_invalid(format_path(path) or _NO_FIELD, got, text), path))

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        kind = type(value)
        if kind in exact:
            return
        if value is None:
            if not nullable:
                report(path, problems, expected, "null")
            return
        if kind is float and value.is_integer() and "integer" in types:
            return
        if kind is int and "number" in types:
            return
        if format_ and kind not in (str, list):
            report(path, problems, format_, _GO_FORMATS.get(kind, ""))
        elif numeric or not format_ or kind not in (str, list):
            report(path, problems, expected, _TYPE_NAMES[kind])

    return check


def _problems_of(check: Check | None, value: Any, path: LazyPath) -> list[Problem]:
    problems: list[Problem] = []
    if check is not None:
        check(value, path, problems)
    return problems


def _problem_without_field(text: str, path: LazyPath) -> Problem:
    return _problem_at(invalid(_NO_FIELD, "", text), path)


def _composite_check(schema: Raw) -> Check | None:
    makers = (("anyOf", _any_of_check), ("oneOf", _one_of_check), ("allOf", _all_of_check))
    steps = [make([compile_check(s) for s in schema[key]]) for key, make in makers if schema.get(key)]
    if schema.get("not"):
        steps.append(_not_check(compile_check(schema["not"])))
    if not steps:
        return None

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        for step in steps:
            step(value, path, problems)

    return check


def _any_of_check(branches: Sequence[Check | None]) -> Check:
    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        failures: list[list[Problem]] = []
        for branch in branches:
            found = _problems_of(branch, value, path)
            if not found:
                return
            failures.append(found)
        problems.append(
            _problem_without_field(f'"{format_path(path)}" must validate at least one schema (anyOf)', path)
        )
        nearest: list[Problem] = min(failures, key=len)
        problems.extend(nearest)

    return check


def _one_of_check(branches: Sequence[Check | None]) -> Check:
    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        results = [_problems_of(branch, value, path) for branch in branches]
        passed = sum(1 for found in results if not found)
        if passed == 1:
            return
        how = f"Found {passed} valid alternatives" if passed else "Found none valid"
        problems.append(
            _problem_without_field(f'"{format_path(path)}" must validate one and only one schema (oneOf). {how}', path)
        )
        if not passed:
            nearest: list[Problem] = min(results, key=len)
            problems.extend(nearest)

    return check


def _all_of_check(branches: Sequence[Check | None]) -> Check:
    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        results = [_problems_of(branch, value, path) for branch in branches]
        passed = sum(1 for found in results if not found)
        for found in results:
            problems.extend(found)
        if passed < len(results):
            how = "" if passed else ". None validated"
            problems.append(
                _problem_without_field(f'"{format_path(path)}" must validate all the schemas (allOf){how}', path)
            )

    return check


def _not_check(branch: Check | None) -> Check:
    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if not _problems_of(branch, value, path):
            problems.append(_problem_without_field(f'"{format_path(path)}" must not validate the schema (not)', path))

    return check


def _string_check(schema: Raw) -> Check | None:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is None and most is None and not pattern:
        return None
    matches = _pattern_check(pattern) if pattern else None

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if type(value) is not str:
            return
        if most is not None and len(value) > most:
            problems.append(_problem_at(too_long(format_path(path), most), path))
        elif least is not None and len(value) < least:
            text = f"{format_path(path)} in body should be at least {least} chars long"
            problems.append(_problem_at(invalid(format_path(path), value, text), path))
        elif matches is not None and (why := matches(value)):
            problems.append(_problem_at(invalid(format_path(path), value, f"{format_path(path)} in body {why}"), path))

    return check


def _pattern_check(pattern: str) -> Callable[[str], str]:
    """A function that tells why a text does not match; what cannot be decided does not match."""
    matches = go_matcher(pattern)
    if matches is None:  # only in a schema that was stored before such patterns were refused
        return lambda _: f"cannot be checked: the pattern '{pattern}' is invalid"

    def check(text: str) -> str:
        try:
            return "" if matches(text) else f"should match '{pattern}'"
        except StepLimitExceeded:
            return f"cannot be checked: matching '{pattern}' takes too many steps"

    return check


def _format_check(schema: Raw) -> Check | None:
    name = schema.get("format", "")
    fits = FORMATS.get(name)
    if fits is None:
        return None

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if type(value) is str and not fits(value):
            text = f"{format_path(path)} in body must be of type {name}: {format_value(value)}"
            problems.append(_problem_at(type_invalid(format_path(path), value, text), path))

    return check


def _is_out_of_range(value: float, first_type: str, format_: str) -> bool:
    if first_type != "integer" or format_ not in INTEGER_FORMATS:
        return False
    if isinstance(value, float) and not value.is_integer():
        return True
    return int(value) not in INTEGER_FORMATS[format_]


def _number_check(schema: Raw) -> Check | None:
    types, format_ = allowed_types(schema), schema.get("format", "")
    first_type = types[0] if types else ""
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    open_below, open_above = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))
    if first_type not in ("integer", "number") and least is None and most is None and step is None:
        return None

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if type(value) is not int and type(value) is not float:
            return

        def report(text: str) -> None:
            problems.append(
                _problem_at(invalid(format_path(path), value, f"{format_path(path)} in body should be {text}"), path)
            )

        if _is_out_of_range(value, first_type, format_):
            text = f"Checked value must be of type {first_type} with format {format_} in {format_path(path)}"
            problems.append(_problem_without_field(text, path))
        bound = int if type(value) is int else float  # an integer is compared with the integer part of a bound
        if step is not None and step <= 0:
            text = f"factor MultipleOf declared for {format_path(path)} must be positive: {format_go_number(step)}"
            problems.append(_problem_without_field(text, path))
        elif step is not None and value % step:
            report(f"a multiple of {format_go_number(step)}")
        if least is not None and (value <= bound(least) if open_below else value < bound(least)):
            report(f"greater than {'' if open_below else 'or equal to '}{format_go_number(bound(least))}")
        if most is not None and (value >= bound(most) if open_above else value > bound(most)):
            report(f"less than {'' if open_above else 'or equal to '}{format_go_number(bound(most))}")

    return check


def _array_check(schema: Raw) -> Check | None:
    inner = compile_check(schema["items"]) if isinstance(schema.get("items"), dict) else None
    least, most, unique = schema.get("minItems"), schema.get("maxItems"), bool(schema.get("uniqueItems"))
    if inner is None and least is None and most is None and not unique:
        return None

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if type(value) is not list:
            return
        if inner is not None:
            for i, item in enumerate(value):
                inner(item, (path, i), problems)
        if least is not None and len(value) < least:
            text = f"{format_path(path)} in body should have at least {least} items"
            problems.append(_problem_at(invalid(format_path(path), len(value), text), path))
        if most is not None and len(value) > most:
            problems.append(_problem_at(too_many(format_path(path), len(value), most), path))
        if unique and len({format_value(item) for item in value}) < len(value):
            text = f"{format_path(path)} in body shouldn't contain duplicates"
            problems.append(_problem_at(invalid(format_path(path), "", text), path))

    return check


def _enum_check(schema: Raw) -> Check | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    texts = frozenset(a for a in allowed if isinstance(a, str))

    def is_listed(value: Any) -> bool:
        if type(value) is float:  # compared after conversion, as Go does
            return any(type(a) in (int, float) and type(a)(value) == a for a in allowed)
        return any(type(a) is type(value) and a == value for a in allowed)

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if (value in texts) if type(value) is str else is_listed(value):
            return
        problems.append(_problem_at(not_supported(format_path(path), value, allowed), path))

    return check


_first = itemgetter(0)


def _property_count_check(schema: Raw) -> Callable[[int, LazyPath, list[Problem]], bool] | None:
    """Whether the number of members is allowed; an object that fails is not validated further."""
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is None and most is None:
        return None

    def fits(count: int, path: LazyPath, problems: list[Problem]) -> bool:
        if least is not None and count < least:
            text = f"{format_path(path)} in body should have at least {least} properties"
            problems.append(_problem_at(invalid(format_path(path), count, text), path))
            return False
        if most is not None and count > most:
            problems.append(_problem_at(too_many(format_path(path), count, most), path))
            return False
        return True

    return fits


def _object_check(schema: Raw) -> Check | None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    rest = compile_check(additional) if isinstance(additional, dict) else None
    required_keys = tuple(schema.get("required") or ())
    required_set = frozenset(required_keys)
    fits = _property_count_check(schema)
    inners = {key: inner for key, child in properties.items() if (inner := compile_check(child)) is not None}
    if not inners and rest is None and not required_keys and fits is None:
        return None

    def check(value: Any, path: LazyPath, problems: list[Problem]) -> None:
        if type(value) is not dict:
            return
        if fits is not None and not fits(len(value), path, problems):
            return
        if rest is not None:
            for key, item in value.items():
                if key not in properties:
                    rest(item, (path, key), problems)
        before = so_far = len(problems)
        failed: list[tuple[str, list[Problem]]] = []
        for key, item in value.items():
            if key in inners:
                inners[key](item, (path, key), problems)
                if len(problems) > so_far:
                    failed.append((key, problems[so_far:]))
                    so_far = len(problems)
        if len(failed) > 1:  # sorted by name
            problems[before:] = [problem for _, found in sorted(failed, key=_first) for problem in found]
        if not value.keys() >= required_set:
            problems.extend(
                _problem_at(required(format_path((path, key))), path) for key in required_keys if key not in value
            )

    return check
