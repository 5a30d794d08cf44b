"""Checks CEL expressions against the schemas of their variables: unknown fields, operands of wrong types, static cost.

The evaluator knows no objects with declared fields, so it takes variables of any type. This checker follows the types of a
schema through an expression. Whatever it cannot tell has the type `dyn`, about which nothing is reported.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from trimtab.api.kinds.native.openapi import component
from trimtab.api.schema.go_regexp import pattern_error
from trimtab.api.value import Raw
from trimtab.interpret.cel.syntax import MACROS, Call, Group, Index, Literal, Name, Node, Select, SyntaxFault, parse

COST_LIMIT = 10_000_000
"""For one rule over all places where its schema applies, as in Kubernetes."""
MAX_REQUEST_BYTES = 3 * 1024 * 1024
_STEPS_PER_ITERATION = 2
_COMPARABLE = frozenset(("int", "uint", "double", "string", "bool", "bytes", "timestamp", "duration"))
_NUMBERS = frozenset(("int", "uint", "double"))
_WITHOUT_FIELDS = frozenset(("int", "uint", "double", "string", "bool", "bytes", "list"))
_ESCAPES = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_RESULTS = {
    **dict.fromkeys(("size", "int", "indexOf", "lastIndexOf", "getYear", "getMonth", "getHours"), "int"),
    **dict.fromkeys(("string", "lowerAscii", "upperAscii", "trim", "replace", "substring", "join", "format"), "string"),
    **dict.fromkeys(("startsWith", "endsWith", "contains", "matches", "has", "isSorted", "bool"), "bool"),
    "double": "double",
}


class CelType(NamedTuple):
    """A type: its name, and for lists, maps and objects the schema of what is inside."""

    name: str
    schema: Raw | None = None


DYN = CelType("dyn")
_SCALARS = {"integer": "int", "number": "double", "boolean": "bool"}
_STRING_FORMATS = {"date": "timestamp", "date-time": "timestamp", "duration": "duration", "byte": "bytes"}


def type_of_schema(schema: Raw) -> CelType:
    """The type of a value with this schema; references are to the schemas of native kinds."""
    reference = schema.get("$ref") or next((one.get("$ref") for one in schema.get("allOf") or ()), None)
    if reference:
        schema = component(str(reference).rpartition("/")[2])
        if "properties" not in schema and schema.get("type") == "object":
            return DYN  # any object
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"):
        return DYN
    if kind == "string":
        return CelType(_STRING_FORMATS.get(schema.get("format", ""), "string"))
    if kind in _SCALARS:
        return CelType(_SCALARS[kind])
    if kind == "array":
        return CelType("list", schema)
    if kind != "object":
        return DYN
    if isinstance(schema.get("additionalProperties"), dict):
        return CelType("map", schema)
    is_open = schema.get("additionalProperties") or schema.get("x-kubernetes-embedded-resource")
    return DYN if is_open else CelType("object", schema)


class TypeFault(Exception):
    """What is wrong, with its position in the expression."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def check_types(expression: str, variables: Mapping[str, CelType]) -> str:
    """The first error of an expression over these variables, as the evaluator words it; empty if there is none."""
    try:
        _infer(parse(expression), variables)
    except SyntaxFault:
        return ""
    except TypeFault as fault:
        line = expression.count("\n", 0, fault.at)
        column = fault.at - (expression.rfind("\n", 0, fault.at) + 1)
        text = expression.split("\n")[line]
        return f"ERROR: <input>:{line + 1}:{column + 1}: {fault.message}\n | {text}\n | {'.' * column}^"
    return ""


def _infer(node: Node, scope: Mapping[str, CelType]) -> CelType:
    if isinstance(node, Literal):
        return CelType(node.type)
    if isinstance(node, Name):
        return scope.get(node.name, DYN)
    if isinstance(node, Select):
        return _infer_field(node, scope)
    if isinstance(node, Index):
        operand = _infer(node.operand, scope)
        _infer(node.key, scope)
        return DYN if node.optional else _item_type(operand)
    if isinstance(node, Group):
        for part in node.parts:
            _infer(part, scope)
        return CelType(node.type)
    return _infer_call(node, scope)


def _infer_field(node: Select, scope: Mapping[str, CelType]) -> CelType:
    operand = _infer(node.operand, scope)
    if operand.name == "map":
        return DYN if node.optional else _item_type(operand)
    if operand.name in _WITHOUT_FIELDS and not node.optional:
        raise TypeFault(f"type '{_type_name(operand)}' does not support field selection", node.at)
    if operand.name != "object" or operand.schema is None:
        return DYN
    properties = operand.schema.get("properties") or {}
    field = properties.get(unescape(node.field))
    if field is None:
        raise TypeFault(f"undefined field '{node.field}'", node.at)
    return DYN if node.optional else type_of_schema(field)


def _type_name(type_: CelType) -> str:
    """The type with those of its items, as errors name it."""
    return f"list({_type_name(_item_type(type_))})" if type_.name == "list" else type_.name


def unescape(name: str) -> str:
    """The property that an identifier names: characters and words that CEL does not allow are escaped."""
    if not name.startswith("__") or "__" not in name[2:]:
        parts = name.split("__")
        if len(parts) < 3:
            return name
    else:
        parts = name.split("__")
        if len(parts) == 3 and not parts[0] and not parts[2] and parts[1] in _RESERVED:
            return parts[1]
    return "".join(_ESCAPES.get(part, part) if number % 2 else part for number, part in enumerate(parts))


def _item_type(collection: CelType) -> CelType:
    if collection.schema is None:
        return DYN
    key = "items" if collection.name == "list" else "additionalProperties"
    inside = collection.schema.get(key)
    return type_of_schema(inside) if isinstance(inside, dict) else DYN


def _infer_call(node: Call, scope: Mapping[str, CelType]) -> CelType:
    if node.function in MACROS and node.target is not None and len(node.arguments) >= 2:
        return _infer_macro(node, scope)
    if node.target is not None:
        _infer(node.target, scope)
    if node.function == "cel.bind" or (node.target == Name("cel", 0) and node.function == "bind"):
        return DYN
    types = [_infer(argument, scope) for argument in node.arguments]
    if node.function == "matches" and node.arguments:
        _check_pattern(node.arguments[-1])
    if node.function == "_?_:_":
        return types[1] if types[1] == types[2] else DYN
    if node.function.startswith("_") or node.function in ("!_", "-_"):
        return _operator_type(node, types)
    return CelType(_RESULTS.get(node.function, "dyn")) if node.function in _RESULTS else DYN


def _check_pattern(pattern: Node) -> None:
    if isinstance(pattern, Literal) and pattern_error(pattern.text):
        raise TypeFault("invalid matches argument", pattern.at)


def position_of_name(expression: str, name: str) -> int | None:
    """Where an expression first reads a variable; None if it does not."""
    try:
        open_: list[Any] = [parse(expression)]
    except SyntaxFault:
        return None
    found: list[int] = []
    while open_:
        node = open_.pop()
        if isinstance(node, Name) and node.name == name:
            found.append(node.at)
        elif isinstance(node, tuple):
            open_ += [part for part in node if isinstance(part, tuple)]
    return min(found, default=None)


def _infer_macro(node: Call, scope: Mapping[str, CelType]) -> CelType:
    collection = _infer(node.target, scope) if node.target is not None else DYN
    *names, body = node.arguments
    variables = [name.name for name in names if isinstance(name, Name)]
    item = CelType("string") if collection.name == "map" else _item_type(collection)
    first = variables[:1] if len(variables) == 1 or node.function in ("map", "filter") else []
    inner = {**scope, **dict.fromkeys(variables, DYN), **dict.fromkeys(first, item)}
    for expression in (*(name for name in names[1:] if not isinstance(name, Name)), body):
        _infer(expression, inner)
    if node.function == "filter":
        return collection
    return CelType("bool") if node.function in ("all", "exists", "exists_one", "existsOne") else CelType("list")


def _operator_type(node: Call, types: list[CelType]) -> CelType:
    names = [type_.name for type_ in types]
    if "dyn" not in names and not _takes(node.function, names):
        raise TypeFault(f"found no matching overload for '{node.function}' applied to '({', '.join(names)})'", node.at)
    if node.function in ("_&&_", "_||_", "!_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"):
        return CelType("bool")
    return types[0] if names and names[0] in _NUMBERS | {"string", "bytes"} and "dyn" not in names else DYN


def _takes(function: str, names: list[str]) -> bool:
    """Whether an operator has an overload for these types; operands that are no scalars are not judged."""
    if any(name not in _COMPARABLE for name in names):
        return not (set(names) & _COMPARABLE and function in ("_&&_", "_||_", "!_") and set(names) != {"bool"})
    if function in ("_&&_", "_||_", "!_"):
        return set(names) == {"bool"}
    if function in ("_<_", "_<=_", "_>_", "_>=_"):
        return len(set(names)) == 1 or set(names) <= _NUMBERS
    if function in ("_==_", "_!=_"):
        return len(set(names)) == 1 or set(names) <= _NUMBERS
    if function == "_+_" and set(names) <= {"timestamp", "duration"}:
        return True
    if function == "_+_":
        return len(set(names)) == 1 and names[0] != "bool"
    if function == "_-_" and set(names) <= {"timestamp", "duration"}:
        return True
    return len(set(names)) == 1 and names[0] in _NUMBERS


def estimate_cost(expression: str, variables: Mapping[str, CelType]) -> int:
    """An upper bound of the steps of an evaluation, by the largest lists and maps that the schemas allow."""
    try:
        return _cost(parse(expression), variables)
    except (SyntaxFault, TypeFault):
        return 0


def _cost(node: Node, scope: Mapping[str, CelType]) -> int:
    if isinstance(node, Literal):
        return 0
    if isinstance(node, Name):
        return 1
    if isinstance(node, Select):
        return 1 + _cost(node.operand, scope)
    if isinstance(node, Index):
        return 1 + _cost(node.operand, scope) + _cost(node.key, scope)
    if isinstance(node, Group):
        return 1 + sum(_cost(part, scope) for part in node.parts)
    target = _cost(node.target, scope) if node.target is not None else 0
    if node.function in MACROS and node.target is not None and len(node.arguments) >= 2:
        collection = _infer(node.target, scope)
        names = [name.name for name in node.arguments[:-1] if isinstance(name, Name)]
        item = CelType("string") if collection.name == "map" else _item_type(collection)
        inner = {**scope, **dict.fromkeys(names, item)}
        each = _STEPS_PER_ITERATION + sum(_cost(one, inner) for one in node.arguments if not isinstance(one, Name))
        return target + 1 + max_size(collection) * each
    return target + 1 + sum(_cost(argument, scope) for argument in node.arguments)


def max_size(collection: CelType) -> int:
    """How many items a list or map may have: by its schema, or by the largest request."""
    schema = collection.schema
    if schema is None or collection.name not in ("list", "map"):
        return 1
    limit = schema.get("maxItems" if collection.name == "list" else "maxProperties")
    if isinstance(limit, int):
        return limit
    inside = schema.get("items" if collection.name == "list" else "additionalProperties")
    key_bytes = 4 if collection.name == "map" else 0
    return MAX_REQUEST_BYTES // (_min_bytes(inside if isinstance(inside, dict) else {}) + 1 + key_bytes)


def _min_bytes(schema: Raw) -> int:
    """The smallest encoding of a value."""
    kind: Any = schema.get("type")
    if kind == "string":
        return 2 + int(schema.get("minLength") or 0)
    if kind == "object":
        properties = schema.get("properties") or {}
        return 2 + sum(len(name) + 4 + _min_bytes(properties.get(name) or {}) for name in schema.get("required") or ())
    return {"array": 2, "boolean": 4}.get(kind, 1)
