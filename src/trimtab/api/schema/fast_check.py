"""Fast acceptance test: a msgspec type built from a schema tells quickly that a value is valid.

Problem. Every write is validated against the schema of its kind. The full check in `validation` walks schema and
value in Python, because it has to reproduce the messages of kube-apiserver with their field paths and their order.
Nearly every value is valid, so this work is nearly always done for nothing.

Idea. A schema is translated once, on first use, into a Python type that states the same constraints: objects become
structs, arrays become lists, limits become `Meta`, enums become `Literal`. `msgspec.convert` then checks a value in
C. Its result is thrown away; only success or failure counts. A value that fails is validated again by the full check,
which finds the messages.

Invariant. Acceptance is never wrong: a value that the type accepts has no problem in the full check. The reverse need
not hold. A rejection may be a false alarm (`1.0` for an integer) and costs only time. So a keyword that a type cannot
state exactly must never be dropped from the translation. `test_accepted_values_have_no_problems` compares both checks
on random schemas and values; run it after every change here.

What a type cannot state (`pattern`, `anyOf`, formats of strings, ...) becomes a marker class that carries the
compiled full check of that part of the schema. msgspec does not know the class and calls `dec_hook`, which runs the
check. The rest of the schema stays fast. Traps: struct fields get generated names, because property names need not be
identifiers, and a property name that msgspec cannot escape sends its whole object to the full check; bounds outside
of int64 do so, too; `bool` is never accepted as an integer, as in JSON.

What was tried. Before, the full check had shortcuts of its own for the common cases; walking the schema was still
several times slower. On a ResourceBinding with five clusters the full check takes about 65 us, this one
about 10 us; it saved about 2 % of the CPU per workload. Building the type takes about as long as compiling the full
check, hence on demand.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, convert, defstruct

from trimtab.api.schema.formats import FORMATS
from trimtab.api.schema.validation import INTEGER_FORMATS, Check, Problem, compile_check, types_in
from trimtab.api.value import Raw

_BEYOND_TYPES = frozenset(
    (
        "allOf",
        "anyOf",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxProperties",
        "minProperties",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "uniqueItems",
    )
)
"""Keywords that no type can state."""
_LIMITS = frozenset(
    (
        "additionalProperties",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "properties",
        "required",
    )
)
"""Keywords that apply to values of some types only, or to what is inside them."""
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_INT64 = INTEGER_FORMATS["int64"]


class Mould:
    """The msgspec type of one schema, built on first use."""

    def __init__(self, schema: Raw) -> None:
        self._schema = schema

    @cached_property
    def _type(self) -> Any:
        return _type_of(self._schema)

    def fits(self, value: Any) -> bool:
        """Whether the value is certainly valid; False also where only the full check can decide."""
        try:
            convert(value, self._type, dec_hook=_look_closer)
        except ValueError:
            return False
        return True


class _Closer:
    """Marks a part of a type that only the full check can decide."""

    check: ClassVar[Check]


def _closer(schema: Raw) -> Any:
    check = compile_check(schema)
    return type("FullCheck", (_Closer,), {"check": staticmethod(check)}) if check is not None else Any


def _look_closer(kind: type[_Closer], value: Any) -> _Closer:
    problems: list[Problem] = []
    kind.check(value, None, problems)
    if problems:
        raise ValueError
    return kind()


def _type_of(schema: Raw) -> Any:
    if types_in(schema) == ("integer", "string") and schema.get("anyOf") == _INT_OR_STRING:
        schema = {key: value for key, value in schema.items() if key != "anyOf"}  # it repeats what int-or-string means
    nullable = bool(schema.get("nullable"))
    if _BEYOND_TYPES & schema.keys() or (nullable and "enum" in schema):
        return _closer(schema)
    type_ = _MAKERS.get(schema.get("type", ""), _closer)(schema)
    return type_ | None if nullable else type_


def _text(schema: Raw) -> Any:
    allowed = schema.get("enum")
    if schema.get("format") in FORMATS:
        return _closer(schema)
    if not allowed:
        return _as_long(str, schema, "minLength", "maxLength")
    only_strings = all(type(value) is str for value in allowed) and not schema.keys() & {"minLength", "maxLength"}
    return Literal[tuple(allowed)] if only_strings else _closer(schema)


def _integer(schema: Raw) -> Any:
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    are_integers = all(bound is None or (type(bound) is int and bound in _INT64) for bound in (minimum, maximum))
    if "enum" in schema or not are_integers:
        return _closer(schema)
    allowed = INTEGER_FORMATS.get(schema.get("format", ""))
    if allowed is not None:
        minimum = allowed[0] if minimum is None else max(minimum, allowed[0])
        maximum = allowed[-1] if maximum is None else min(maximum, allowed[-1])
    return int if minimum is None and maximum is None else Annotated[int, Meta(ge=minimum, le=maximum)]


def _list(schema: Raw) -> Any:
    items = schema.get("items")
    if "enum" in schema:
        return _closer(schema)
    of_items = list[_type_of(items)] if isinstance(items, dict) else list  # type: ignore[misc]  # built at run time
    return _as_long(of_items, schema, "minItems", "maxItems")


def _object(schema: Raw) -> Any:
    additional, required = schema.get("additionalProperties"), frozenset(schema.get("required") or ())
    properties = {**{key: {} for key in required}, **(schema.get("properties") or {})}
    mixed = properties and isinstance(additional, dict)
    if "enum" in schema or mixed or not all(map(_is_plain, properties)):
        return _closer(schema)
    if not properties and isinstance(additional, dict):
        return dict[str, _type_of(additional)]  # type: ignore[misc]  # built at run time
    if not properties:
        return dict
    names = {f"property_{number}": key for number, key in enumerate(properties)}
    fields = [
        (name, _type_of(properties[key])) if key in required else (name, _type_of(properties[key]), None)
        for name, key in names.items()
    ]
    return defstruct("Properties", fields, rename=names, kw_only=True, gc=False)


def _is_plain(name: str) -> bool:
    """Whether msgspec accepts this property name as the encoded name of a struct field."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _untyped(schema: Raw) -> Any:
    if _LIMITS & schema.keys():
        return _closer(schema)
    return int | str if schema.get("x-kubernetes-int-or-string") else Any


def _as_long(of: Any, schema: Raw, at_least: str, at_most: str) -> Any:
    minimum, maximum = schema.get(at_least), schema.get(at_most)
    if minimum is None and maximum is None:
        return of
    are_lengths = all(bound is None or (type(bound) is int and 0 <= bound in _INT64) for bound in (minimum, maximum))
    return Annotated[of, Meta(min_length=minimum, max_length=maximum)] if are_lengths else _closer(schema)


_MAKERS: dict[str, Callable[[Raw], Any]] = {
    "string": _text,
    "integer": _integer,
    "boolean": lambda schema: _closer(schema) if "enum" in schema else bool,
    "array": _list,
    "object": _object,
    "": _untyped,
}
"""By the `type` keyword; `number` is rare and left to the full check."""
