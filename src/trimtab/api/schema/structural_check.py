"""Whether the schemas of a CustomResourceDefinition are structural, with the messages of kube-apiserver."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from trimtab.api.field_errors import forbidden, invalid, not_supported, required
from trimtab.api.limits import MAX_PATTERN_STATES_OF_CRD, MAX_PATTERNS, MAX_RULES
from trimtab.api.schema.go_regexp import pattern_error, pattern_size, reset_match_steps
from trimtab.api.schema.prune_and_default import compile_pruner
from trimtab.api.schema.validation import Problem, compile_check
from trimtab.api.value import Raw
from trimtab.errors import Cause

_UNSUPPORTED_KEYWORDS = ("$ref", "$schema", "id", "definitions", "dependencies", "patternProperties", "additionalItems")
_EMPTY_TYPE_MESSAGES = {
    "root": "must not be empty at the root",
    "items": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NESTED_FORBIDDEN = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "additionalProperties": "must be undefined to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
}
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_MAP_TYPES = ("atomic", "granular")
_INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]
_LIST_TYPES = ("atomic", "set", "map")
_RULE_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_FIELD_STEP = re.compile(r"\.([A-Za-z_]\w*)|\['([^']+)'\]")


class RulePlace(NamedTuple):
    """Where in a definition a rule stands."""

    schema: Raw
    """The schema of `self`."""
    is_root: bool
    enclosing: tuple[Raw, ...] = ()
    """The schemas of the lists and maps around it: the rule is evaluated for each of their items."""
    uncorrelated: str = ""
    """The path of the outermost part around it whose old and new items cannot be told to be the same ones."""


class RuleFault(NamedTuple):
    """Why an expression cannot be used."""

    why: str
    is_forbidden: bool = False
    """Whether the expression is valid and costs too much."""


RuleCheck: TypeAlias = Callable[[str, bool, RulePlace], RuleFault | None]
"""What is wrong with an expression, given whether it is a condition."""


def definition_causes(definition: Raw, rule_check: RuleCheck | None = None) -> list[Cause]:
    """Causes found in all versions; when all have the same schema, upstream reports it once, as one field."""
    versions = [v for v in (definition.get("spec") or {}).get("versions") or [] if isinstance(v, dict)]
    found = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    schemas = [schema for schema in found if isinstance(schema, dict)]
    if len(schemas) < len(found):
        missing = [i for i, schema in enumerate(found) if not isinstance(schema, dict)]
        return [required(f"spec.versions[{i}].schema.openAPIV3Schema") for i in missing]
    named = [(schema, f"spec.versions[{i}].schema.openAPIV3Schema") for i, schema in enumerate(schemas)]
    if schemas and all(schema == schemas[0] for schema in schemas):
        named = [(schemas[0], "spec.validation.openAPIV3Schema")]
    placed = [part for schema, field in named for part in _all_parts(schema, field)]
    parts = [(place.schema, field) for place, field in placed]
    if too_many := list(_size_causes(parts)):
        return too_many
    reset_match_steps()
    causes = [cause for schema, field in named for cause in schema_causes(schema, field)]
    references = [forbidden(f"{field}.$ref", "$ref is not supported") for part, field in parts if "$ref" in part]
    causes += [cause for cause in references if cause not in causes]  # those in branches
    if rule_check is not None and not references:  # nothing is looked up for them
        causes += [cause for part in placed for cause in _rule_errors(*part, rule_check)]
    return causes


def _all_parts(schema: Raw, field: str) -> Iterator[tuple[RulePlace, str]]:
    """A schema and every schema inside it, each with its path."""
    open_ = [(RulePlace(schema, is_root=True), field)]
    while open_:
        place, where = open_.pop()
        yield place, where
        part, around, repeated = place.schema, place.enclosing, (*place.enclosing, place.schema)
        uncorrelated = place.uncorrelated or (where if _loses_correlation(part) else "")
        inside: list[tuple[Any, tuple[Raw, ...], str]] = [
            (child, around, f"{where}.properties[{key}]") for key, child in _mapping(part.get("properties")).items()
        ]
        inside += [(part.get(key), repeated, f"{where}.{key}") for key in ("items", "additionalProperties")]
        inside.append((part.get("not"), around, f"{where}.not"))
        for key in ("anyOf", "oneOf", "allOf"):
            inside += [(branch, around, f"{where}.{key}[{i}]") for i, branch in enumerate(part.get(key) or ())]
        open_ += [
            (RulePlace(child, is_root=False, enclosing=enclosing, uncorrelated=uncorrelated), path)
            for child, enclosing, path in reversed(inside)
            if isinstance(child, dict)
        ]


def _loses_correlation(schema: Raw) -> bool:
    """Whether the items of a list are not known by keys, so that an item has no old value."""
    return schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map"


def _size_causes(parts: list[tuple[Raw, str]]) -> Iterator[Cause]:
    """Patterns and rules are compiled when the definition is written, so their number is bounded."""
    patterns = {part["pattern"] for part, _ in parts if part.get("pattern")}
    states = 0
    for pattern in patterns if len(patterns) <= MAX_PATTERNS else ():
        states += pattern_size(pattern)
        if states > MAX_PATTERN_STATES_OF_CRD:
            break
    if len(patterns) > MAX_PATTERNS or states > MAX_PATTERN_STATES_OF_CRD:
        yield forbidden(
            "spec.versions",
            f"the patterns of all schemas are too large: at most {MAX_PATTERNS} patterns "
            f"with {MAX_PATTERN_STATES_OF_CRD} states together are allowed",
        )
    rules = {_mapping(rule).get("rule") for part, _ in parts for rule in part.get("x-kubernetes-validations") or ()}
    if len(rules) > MAX_RULES:
        why = f"the schemas have more than {MAX_RULES} different rules in x-kubernetes-validations"
        yield forbidden("spec.versions", why)


def _rule_errors(place: RulePlace, field: str, rule_check: RuleCheck) -> Iterator[Cause]:
    for i, rule in enumerate(place.schema.get("x-kubernetes-validations") or ()):
        for key in ("rule", "messageExpression"):
            expression = str(_mapping(rule).get(key) or "")
            if not expression.strip() or (fault := rule_check(expression, key == "rule", place)) is None:
                continue
            where = f"{field}.x-kubernetes-validations[{i}].{key}"
            yield forbidden(where, fault.why) if fault.is_forbidden else invalid(where, expression, fault.why)


def schema_causes(schema: Raw, field: str) -> Iterator[Cause]:
    """Causes found in one whole schema."""
    yield from _schema_causes(schema, field, "root")


def _schema_causes(schema: Mapping[str, Any], field: str, level: str) -> Iterator[Cause]:
    yield from _unsupported_causes(schema, field)
    if not schema.get("$ref"):
        yield from _type_causes(schema, field, level)
    yield from _extension_causes(schema, field)
    yield from _list_type_causes(schema, field)
    yield from _map_type_causes(schema, field)
    yield from _rule_causes(schema, field)
    if schema.get("default") is not None:
        yield from _default_causes(schema, field)
    yield from _nested_causes(schema, field)
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        yield from _object_field_causes(_mapping(schema.get("properties")), f"{field}.properties")
    for key, child in _mapping(schema.get("properties")).items():
        yield from _schema_causes(_mapping(child), f"{field}.properties[{key}]", "field")
    if isinstance(schema.get("items"), dict):
        yield from _schema_causes(schema["items"], f"{field}.items", "items")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema_causes(schema["additionalProperties"], f"{field}.additionalProperties", "field")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _unsupported_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    for key in _UNSUPPORTED_KEYWORDS:
        if schema.get(key):
            yield forbidden(f"{field}.{key}", f"{key} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{field}.uniqueItems", why)
    if schema.get("additionalProperties") not in (None, True) and schema.get("properties"):
        yield forbidden(f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if schema.get("type") and schema["type"] not in _TYPES:
        yield not_supported(f"{field}.type", schema["type"], _TYPES)
    if schema.get("type") == "null":
        yield forbidden(f"{field}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{field}.items", "items must be a schema object and not an array")
    elif schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{field}.items", "must be specified")
    yield from _pattern_causes(schema, field)


def _pattern_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    pattern = schema.get("pattern") or ""
    if why := pattern_error(pattern):
        why = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
        yield invalid(f"{field}.pattern", pattern, why)


def _type_causes(schema: Mapping[str, Any], field: str, level: str) -> Iterator[Cause]:
    type_ = schema.get("type", "")
    where = f"{field}.type"
    if schema.get("x-kubernetes-embedded-resource") and type_ != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(where, type_, why) if type_ else required(where, why)
    elif not type_ and not schema.get("x-kubernetes-int-or-string") and not _preserves_unknown_fields(schema):
        yield required(where, _EMPTY_TYPE_MESSAGES[level])
    if level == "root":
        if type_ and type_ != "object":
            yield invalid(where, type_, "must be object at the root")
        if schema.get("additionalProperties"):
            yield forbidden(f"{field}.additionalProperties", "must not be used at the root")


def _preserves_unknown_fields(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _extension_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{field}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-int-or-string"):
        for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(key):
                yield invalid(f"{field}.{key}", True, "must be false if x-kubernetes-int-or-string is true")
    if schema.get("x-kubernetes-embedded-resource"):
        if schema.get("additionalProperties"):
            why = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{field}.additionalProperties", why)
        if not _preserves_unknown_fields(schema) and not schema.get("properties"):
            why = (
                "must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            )
            yield required(f"{field}.properties", why)


def _object_field_causes(properties: Mapping[str, Any], field: str) -> Iterator[Cause]:
    """apiVersion, kind and metadata may only have their fixed types."""
    for key, type_ in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        child = _mapping(properties.get(key))
        if child.get("type", type_) != type_:
            yield invalid(f"{field}[{key}].type", child["type"], f"must be {type_}")
    extra = sorted(set(_mapping(_mapping(properties.get("metadata")).get("properties"))) - {"name", "generateName"})
    if extra:
        yield forbidden(
            f"{field}[metadata]",
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        )


def _list_type_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if kind is None:
        if keys:
            yield required(f"{field}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
        return
    if schema.get("type") != "array":
        why = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{field}.type", schema["type"], why) if schema.get("type") else required(f"{field}.type", why)
    if kind not in _LIST_TYPES:
        yield not_supported(f"{field}.x-kubernetes-list-type", kind, _LIST_TYPES)
    elif kind == "map":
        yield from _map_key_causes(schema, keys, field)
    elif keys:
        yield invalid(f"{field}.x-kubernetes-list-type", kind, "must be map if x-kubernetes-list-map-keys is non-empty")
    items = _mapping(schema.get("items"))
    if kind == "set":
        for type_, extension in (("object", "x-kubernetes-map-type"), ("array", "x-kubernetes-list-type")):
            if items.get("type") == type_ and items.get(extension) != "atomic":
                why = "must be atomic as item of a list with x-kubernetes-list-type=set"
                yield invalid(f"{field}.items.{extension}", items.get(extension, "null"), why)


def _map_type_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    kind, type_ = schema.get("x-kubernetes-map-type"), schema.get("type")
    if kind is None:
        return
    if type_ != "object":
        why = "must be object if x-kubernetes-map-type is specified"
        yield invalid(f"{field}.type", type_, why) if type_ else required(f"{field}.type", why)
    if kind not in _MAP_TYPES:
        yield not_supported(f"{field}.x-kubernetes-map-type", kind, _MAP_TYPES)


def _rule_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    for i, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where, given = f"{field}.x-kubernetes-validations[{i}]", _mapping(rule)
        expression, message = str(given.get("rule") or "").strip(), str(given.get("message") or "")
        if not expression:
            yield required(f"{where}.rule", "rule is not specified")
        if message and not message.strip():
            yield invalid(f"{where}.message", message, "message must be non-empty if specified")
        elif _has_line_break(message.strip()):
            yield invalid(f"{where}.message", message, "message must not contain line breaks")
        elif _has_line_break(expression) and not message:
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        if given.get("messageExpression") and not str(given["messageExpression"]).strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if given.get("reason") is not None and given["reason"] not in _RULE_REASONS:
            yield not_supported(f"{where}.reason", given["reason"], _RULE_REASONS)
        if path := str(given.get("fieldPath") or ""):
            yield from _field_path_causes(schema, path, f"{where}.fieldPath")


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _field_path_causes(schema: Mapping[str, Any], path: str, field: str) -> Iterator[Cause]:
    if not path.strip():
        yield invalid(field, path, "fieldPath must be non-empty if specified")
    if _has_line_break(path):
        yield invalid(field, path, "fieldPath must not contain line breaks")
    if not _has_field(schema, path):
        yield invalid(field, path, "fieldPath must be a valid path")


def _has_field(schema: Mapping[str, Any], path: str) -> bool:
    """Whether a path of names and keys leads to a field; items of lists cannot be named."""
    rest = path
    while rest:
        step = _FIELD_STEP.match(rest)
        if step is None:
            return False
        inside = schema.get("additionalProperties")
        if not isinstance(inside, dict):
            inside = _mapping(schema.get("properties")).get(step[1] or step[2])
        if not isinstance(inside, dict):
            return False
        schema, rest = inside, rest[step.end() :]
    return True


def _map_key_causes(schema: Mapping[str, Any], keys: list[str], field: str) -> Iterator[Cause]:
    where = f"{field}.x-kubernetes-list-map-keys"
    items = _mapping(schema.get("items"))
    properties = _mapping(items.get("properties"))
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{field}.items.type", items.get("type", ""), why)
        return
    for key in keys:
        if key not in properties:
            yield invalid(where, keys, "entries must all be names of item properties")
        elif key not in (items.get("required") or []) and "default" not in properties[key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{field}.items.properties[{key}].default", why)
    if len(set(keys)) < len(keys):
        yield invalid(where, keys, "must not contain duplicate entries")


def _default_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    """A default must be valid by its own schema and have no unknown fields."""
    prune = compile_pruner(dict(schema))
    unknown: list[str] = []
    if prune is not None:
        prune(schema["default"], "", unknown)
    if unknown:
        yield invalid(f"{field}.default", schema["default"], "must not have unknown fields")
    check = compile_check(dict(schema))
    problems: list[Problem] = []
    if check is not None:
        check(schema["default"], None, problems)
    for problem in problems:
        inner = problem.cause.field
        where = f"{field}.default" if inner in ("", "<nil>") else f"{field}.default.{inner}"
        yield problem.cause._replace(field=where)


def _nested_causes(schema: Mapping[str, Any], field: str) -> Iterator[Cause]:
    """Under anyOf, oneOf, allOf and not only limits may stand; the structure must be declared outside."""
    for key in ("anyOf", "oneOf", "allOf"):
        for i, branch in enumerate(schema.get(key) or ()):
            if schema.get("x-kubernetes-int-or-string") and _INT_OR_STRING_TYPES in (
                schema.get("anyOf"),
                _mapping(branch).get("anyOf"),
            ):
                continue
            yield from _branch_causes(_mapping(branch), f"{field}.{key}[{i}]")
    if isinstance(schema.get("not"), dict):
        yield from _branch_causes(schema["not"], f"{field}.not")


def _branch_causes(branch: Mapping[str, Any], field: str) -> Iterator[Cause]:
    for key, why in _NESTED_FORBIDDEN.items():
        if branch.get(key):
            yield forbidden(f"{field}.{key}", why)
    yield from _pattern_causes(branch, field)
    yield from _nested_causes(branch, field)
    for key, child in _mapping(branch.get("properties")).items():
        yield from _branch_causes(_mapping(child), f"{field}.properties[{key}]")
    if isinstance(branch.get("items"), dict):
        yield from _branch_causes(branch["items"], f"{field}.items")
