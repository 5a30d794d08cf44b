"""Tells at once that a value fits a schema: a type that says as much as the schema is read much faster than the schema.

Nearly everything that is written fits. What does not is looked at piece by piece in `checking`, which knows what to say.
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
"""What a schema may ask for and no type can say."""
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
"""What says something about values of some types only, or about what is inside them."""
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_INT64 = INTEGER_FORMATS["int64"]


class Mould:
    """The type of one schema, made when it is needed first."""

    def __init__(self, schema: Raw) -> None:
        self._schema = schema

    @cached_property
    def _type(self) -> Any:
        return _type_of(self._schema)

    def fits(self, value: Any) -> bool:
        """Whether there is nothing to complain about; False also where only a closer look can tell."""
        try:
            convert(value, self._type, dec_hook=_look_closer)
        except ValueError:
            return False
        return True


class _Closer:
    """Stands in a type for what only the check of a schema can tell."""

    check: ClassVar[Check]


def _closer(schema: Raw) -> Any:
    check = compile_check(schema)
    return type("Closer", (_Closer,), {"check": staticmethod(check)}) if check is not None else Any


def _look_closer(kind: type[_Closer], value: Any) -> _Closer:
    problems: list[Problem] = []
    kind.check(value, None, problems)
    if problems:
        raise ValueError
    return kind()


def _type_of(schema: Raw) -> Any:
    if types_in(schema) == ("integer", "string") and schema.get("anyOf") == _INT_OR_STRING:
        schema = {key: said for key, said in schema.items() if key != "anyOf"}  # which only says the same again
    nullable = bool(schema.get("nullable"))
    if _BEYOND_TYPES & schema.keys() or (nullable and "enum" in schema):
        return _closer(schema)
    made = _MAKERS.get(schema.get("type", ""), _closer)(schema)
    return made | None if nullable else made


def _text(schema: Raw) -> Any:
    allowed = schema.get("enum")
    if schema.get("format") in FORMATS:
        return _closer(schema)
    if not allowed:
        return _as_long(str, schema, "minLength", "maxLength")
    plain = all(type(value) is str for value in allowed) and not schema.keys() & {"minLength", "maxLength"}
    return Literal[tuple(allowed)] if plain else _closer(schema)


def _integer(schema: Raw) -> Any:
    least, most = schema.get("minimum"), schema.get("maximum")
    whole = all(bound is None or (type(bound) is int and bound in _INT64) for bound in (least, most))
    if "enum" in schema or not whole:
        return _closer(schema)
    room = INTEGER_FORMATS.get(schema.get("format", ""))
    if room is not None:
        least = room[0] if least is None else max(least, room[0])
        most = room[-1] if most is None else min(most, room[-1])
    return int if least is None and most is None else Annotated[int, Meta(ge=least, le=most)]


def _list(schema: Raw) -> Any:
    items = schema.get("items")
    if "enum" in schema:
        return _closer(schema)
    of_items = list[_type_of(items)] if isinstance(items, dict) else list  # type: ignore[misc]  # made at run time
    return _as_long(of_items, schema, "minItems", "maxItems")


def _object(schema: Raw) -> Any:
    rest, needed = schema.get("additionalProperties"), frozenset(schema.get("required") or ())
    members = {**{key: {} for key in needed}, **(schema.get("properties") or {})}
    mixed = members and isinstance(rest, dict)
    if "enum" in schema or mixed or not all(map(_is_plain, members)):
        return _closer(schema)
    if not members:
        return dict[str, _type_of(rest)] if isinstance(rest, dict) else dict  # type: ignore[misc]  # made at run time
    names = {f"member_{number}": key for number, key in enumerate(members)}
    fields = [
        (name, _type_of(members[key])) if key in needed else (name, _type_of(members[key]), None)
        for name, key in names.items()
    ]
    return defstruct("Members", fields, rename=names, kw_only=True, gc=False)


def _is_plain(name: str) -> bool:
    """Whether a member of a type may be called so."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _untyped(schema: Raw) -> Any:
    if _LIMITS & schema.keys():
        return _closer(schema)
    return int | str if schema.get("x-kubernetes-int-or-string") else Any


def _as_long(of: Any, schema: Raw, at_least: str, at_most: str) -> Any:
    least, most = schema.get(at_least), schema.get(at_most)
    if least is None and most is None:
        return of
    told = all(bound is None or (type(bound) is int and 0 <= bound in _INT64) for bound in (least, most))
    return Annotated[of, Meta(min_length=least, max_length=most)] if told else _closer(schema)


_MAKERS: dict[str, Callable[[Raw], Any]] = {
    "string": _text,
    "integer": _integer,
    "boolean": lambda schema: _closer(schema) if "enum" in schema else bool,
    "array": _list,
    "object": _object,
    "": _untyped,
}
"""By what a schema says about the type; numbers with fractions are rare and looked at closer."""
