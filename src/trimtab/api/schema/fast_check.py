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
several times slower. docs/performance.md has the figures. Building the type takes about as long as compiling the full
check, hence on demand.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, convert, defstruct

from trimtab.api.schema.formats import FORMATS
from trimtab.api.schema.validation import INTEGER_FORMATS, Check, Problem, allowed_types, compile_check
from trimtab.api.value import Raw

_INEXPRESSIBLE_KEYWORDS = frozenset(
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
_TYPE_SPECIFIC_KEYWORDS = frozenset(
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


class FastCheck:
    """The msgspec type of one schema, built on first use."""

    def __init__(self, schema: Raw) -> None:
        self._schema = schema

    @cached_property
    def _type(self) -> Any:
        return _msgspec_type(self._schema)

    def accepts(self, value: Any) -> bool:
        """Whether the value is certainly valid; False also where only the full check can decide."""
        try:
            convert(value, self._type, dec_hook=_run_full_check)
        except ValueError:
            return False
        return True


class _FullCheckMarker:
    """Marks a part of a type that only the full check can decide."""

    check: ClassVar[Check]


def _full_check_type(schema: Raw) -> Any:
    check = compile_check(schema)
    return type("FullCheck", (_FullCheckMarker,), {"check": staticmethod(check)}) if check is not None else Any


def _run_full_check(marker: type[_FullCheckMarker], value: Any) -> _FullCheckMarker:
    problems: list[Problem] = []
    marker.check(value, None, problems)
    if problems:
        raise ValueError
    return marker()


def _msgspec_type(schema: Raw) -> Any:
    if allowed_types(schema) == ("integer", "string") and schema.get("anyOf") == _INT_OR_STRING:
        schema = {key: value for key, value in schema.items() if key != "anyOf"}  # it repeats what int-or-string means
    nullable = bool(schema.get("nullable"))
    if _INEXPRESSIBLE_KEYWORDS & schema.keys() or (nullable and "enum" in schema):
        return _full_check_type(schema)
    type_ = _TYPE_BUILDERS.get(schema.get("type", ""), _full_check_type)(schema)
    return type_ | None if nullable else type_


def _string_type(schema: Raw) -> Any:
    allowed = schema.get("enum")
    if schema.get("format") in FORMATS:
        return _full_check_type(schema)
    if not allowed:
        return _with_length_limits(str, schema, "minLength", "maxLength")
    only_strings = all(type(value) is str for value in allowed) and not schema.keys() & {"minLength", "maxLength"}
    return Literal[tuple(allowed)] if only_strings else _full_check_type(schema)


def _integer_type(schema: Raw) -> Any:
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    are_integers = all(bound is None or (type(bound) is int and bound in _INT64) for bound in (minimum, maximum))
    if "enum" in schema or not are_integers:
        return _full_check_type(schema)
    allowed = INTEGER_FORMATS.get(schema.get("format", ""))
    if allowed is not None:
        minimum = allowed[0] if minimum is None else max(minimum, allowed[0])
        maximum = allowed[-1] if maximum is None else min(maximum, allowed[-1])
    return int if minimum is None and maximum is None else Annotated[int, Meta(ge=minimum, le=maximum)]


def _array_type(schema: Raw) -> Any:
    items = schema.get("items")
    if "enum" in schema:
        return _full_check_type(schema)
    of_items = list[_msgspec_type(items)] if isinstance(items, dict) else list  # type: ignore[misc]  # built at run time
    return _with_length_limits(of_items, schema, "minItems", "maxItems")


def _object_type(schema: Raw) -> Any:
    additional, required = schema.get("additionalProperties"), frozenset(schema.get("required") or ())
    properties = {**{key: {} for key in required}, **(schema.get("properties") or {})}
    mixed = properties and isinstance(additional, dict)
    if "enum" in schema or mixed or not all(map(_is_valid_field_name, properties)):
        return _full_check_type(schema)
    if not properties and isinstance(additional, dict):
        return dict[str, _msgspec_type(additional)]  # type: ignore[misc]  # built at run time
    if not properties:
        return dict
    names = {f"property_{number}": key for number, key in enumerate(properties)}
    fields = [
        (name, _msgspec_type(properties[key])) if key in required else (name, _msgspec_type(properties[key]), None)
        for name, key in names.items()
    ]
    return defstruct("Properties", fields, rename=names, kw_only=True, gc=False)


def _is_valid_field_name(name: str) -> bool:
    """Whether msgspec accepts this property name as the encoded name of a struct field."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _type_of_untyped_schema(schema: Raw) -> Any:
    if _TYPE_SPECIFIC_KEYWORDS & schema.keys():
        return _full_check_type(schema)
    return int | str if schema.get("x-kubernetes-int-or-string") else Any


def _with_length_limits(type_: Any, schema: Raw, min_keyword: str, max_keyword: str) -> Any:
    minimum, maximum = schema.get(min_keyword), schema.get(max_keyword)
    if minimum is None and maximum is None:
        return type_
    are_lengths = all(bound is None or (type(bound) is int and 0 <= bound in _INT64) for bound in (minimum, maximum))
    return Annotated[type_, Meta(min_length=minimum, max_length=maximum)] if are_lengths else _full_check_type(schema)


_TYPE_BUILDERS: dict[str, Callable[[Raw], Any]] = {
    "string": _string_type,
    "integer": _integer_type,
    "boolean": lambda schema: _full_check_type(schema) if "enum" in schema else bool,
    "array": _array_type,
    "object": _object_type,
    "": _type_of_untyped_schema,
}
"""By the `type` keyword; `number` is rare and left to the full check."""
