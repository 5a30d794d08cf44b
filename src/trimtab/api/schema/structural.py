"""A structural schema, compiled once: prunes, defaults and validates raw objects as kube-apiserver does for CRDs."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

from trimtab.api.field_errors import (
    duplicate,
    forbidden,
    invalid,
    invalid_without_value,
    required,
)
from trimtab.api.limits import MAX_RULE_STEPS
from trimtab.api.names import service_name_faults
from trimtab.api.schema.fast_check import FastCheck
from trimtab.api.schema.go_regexp import reset_match_steps
from trimtab.api.schema.prune_and_default import compile_defaulter, compile_pruner
from trimtab.api.schema.validation import Check, Path, Problem, compile_check
from trimtab.api.value import Raw
from trimtab.errors import Cause

_REASONS_THAT_SKIP_RULES = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_RULES_SKIPPED = invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


_OUT_OF_BUDGET = invalid(
    "<nil>", None, "validation failed due to running out of cost budget, no further validation rules will be run"
)
_EVALUATION_STEPS = 10
_MEMBER_KEYWORDS = frozenset(("type", "properties", "required", "description", "default", "nullable"))
"""Keywords of an object's schema that say nothing about how its members fit together."""


class CelError(Exception):
    """An expression could not be evaluated; the message gives the reason."""


class CelEvaluator(Protocol):
    """Evaluates a CEL expression about `self` and, on update, `oldSelf`; raises `CelFault` when that fails."""

    def __call__(self, expression: str, schema: Raw, value: Any, old: Any) -> Any: ...


NodeCheck = Callable[[Any, str], Iterator[Cause]]
"""Causes found in one value, given its path."""
TreeCheck = Callable[[Any, str, list[Cause]], None]
"""Appends the causes found in a value and everything below it."""


class _SchemaCheck:
    """Validation by one schema: the fast check first, the full check only for values that it does not accept."""

    def __init__(self, schema: Raw) -> None:
        self._schema = schema
        self._fast_check = FastCheck(schema)
        self._members: dict[str, _SchemaCheck] = {}
        self._required = frozenset(schema.get("required") or ())
        self._checks_members_only = schema.get("type") == "object" and schema.keys() <= _MEMBER_KEYWORDS

    def _member(self, key: str) -> "_SchemaCheck":
        member = self._members.get(key)
        if member is None:
            member = self._members[key] = _SchemaCheck((self._schema.get("properties") or {}).get(key) or {})
        return member

    def accepts(self, value: Any, old: Any) -> bool:
        """Whether the value is certainly valid where it is not the same as before; a large part is not checked again.

        In an object that a patch made, the parts that the patch left alone are the same Python objects as in the old one.
        """
        if (
            not self._checks_members_only
            or type(value) is not dict
            or type(old) is not dict
            or not value.keys() >= self._required
        ):
            return self._fast_check.accepts(value)
        for key, item in value.items():
            before = old.get(key)
            if item is not before and not self._member(key).accepts(item, before):
                return False
        return True

    @cached_property
    def _full_check(self) -> Check | None:
        return compile_check(self._schema)

    def problems(self, value: Any, old: Any) -> list[Problem]:
        """What is wrong with the value; problems in what is the same object in the old value may be left out."""
        found: list[Problem] = []
        reset_match_steps()
        if not self.accepts(value, old) and self._full_check is not None:
            self._full_check(value, None, found)
        return found


class StructuralSchema:
    """A structural schema and what it does to objects."""

    def __init__(self, schema: Raw) -> None:
        self.schema = schema
        self._prune = compile_pruner(schema, root=True)
        self._apply_defaults = compile_defaulter(schema)
        self._status_schema: Raw = (schema.get("properties") or {}).get("status") or {}
        self._object_check, self._status_check = _SchemaCheck(schema), _SchemaCheck(self._status_schema)
        self._check_duplicates = _compile_tree_check(schema, _duplicates_check)
        self._check_embedded = _compile_tree_check(_without_own_metadata(schema), _embedded_object_check)
        self._has_rules = _contains_keyword(schema, "x-kubernetes-validations")

    def prune(self, obj: Raw) -> tuple[Raw, list[str]]:
        """The object without unknown fields and dropped nulls, and the sorted paths of the unknown fields."""
        unknown: list[str] = []
        pruned: Raw = self._prune(obj, "", unknown) if self._prune is not None else obj
        return pruned, sorted(unknown)

    def apply_defaults(self, obj: Raw) -> Raw:
        """The object with the schema's defaults applied."""
        filled: Raw = self._apply_defaults(obj) if self._apply_defaults is not None else obj
        return filled

    def check(self, obj: Raw, old: Raw | None = None, cel: CelEvaluator | None = None) -> list[Cause]:
        """Causes found in a whole object; problems in parts that did not change are ignored (validation ratcheting)."""
        problems = _without_unchanged(self._object_check.problems(obj, old), self.schema, obj, old)
        return self._with_object_checks(obj, old, cel, [problem.cause for problem in problems])

    def check_status(self, obj: Raw, old: Raw | None = None, cel: CelEvaluator | None = None) -> list[Cause]:
        """Causes found in the status alone, as on a write through the status subresource."""
        status, before = obj.get("status"), (old or {}).get("status")
        problems = self._status_check.problems(status, before) if "status" in obj else []
        causes = [
            _with_field_prefix("status", p.cause)
            for p in _without_unchanged(problems, self._status_schema, status, before)
        ]
        return self._with_object_checks(obj, old, cel, causes, only="status")

    def _with_object_checks(
        self, obj: Raw, old: Raw | None, cel: CelEvaluator | None, causes: list[Cause], only: str = ""
    ) -> list[Cause]:
        new = obj if old is None else {key: value for key, value in obj.items() if value is not old.get(key)}
        if self._check_embedded is not None:
            self._check_embedded(new, "", causes)
        if self._check_duplicates is not None:
            causes.extend(self._new_duplicates(self._check_duplicates, new, old))
        if cel is None or not self._has_rules:
            return causes
        if any(cause.reason in _REASONS_THAT_SKIP_RULES for cause in causes):
            return [*causes, _RULES_SKIPPED]
        if not only:
            return [*causes, *_rule_causes(_SchemaNode(self.schema, obj, old, ""), cel)]
        child = self.schema["properties"].get(only, {})
        return [*causes, *_rule_causes(_SchemaNode(child, obj.get(only), (old or {}).get(only), only), cel)]

    @staticmethod
    def _new_duplicates(walk: TreeCheck, obj: Raw, old: Raw | None) -> list[Cause]:
        """Duplicate items; none when the old object had duplicates as well."""
        found: list[Cause] = []
        walk(obj, "", found)
        if found and old is not None:
            before: list[Cause] = []
            walk(old, "", before)
            return [] if before else found
        return found


def _with_field_prefix(prefix: str, cause: Cause) -> Cause:
    return cause._replace(field=prefix if cause.field in ("", "<nil>") else f"{prefix}.{cause.field}")


def _contains_keyword(schema: Any, key: str) -> bool:
    if isinstance(schema, dict):
        return key in schema or any(_contains_keyword(child, key) for child in _child_schemas(schema))
    return False


def _child_schemas(schema: Raw) -> Iterator[Raw]:
    yield from (schema.get("properties") or {}).values()
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema[key]


def _compile_tree_check(schema: Raw, visit: Callable[[Raw], NodeCheck | None]) -> TreeCheck | None:
    """A check of a value and all below it that descends only where `visit` returns a check; None when nowhere."""
    own = visit(schema)
    properties, rest_schema, item_schema = (schema.get(key) for key in ("properties", "additionalProperties", "items"))
    known = {key: _compile_tree_check(child, visit) for key, child in (properties or {}).items()}
    rest = _compile_tree_check(rest_schema, visit) if isinstance(rest_schema, dict) else None
    items = _compile_tree_check(item_schema, visit) if isinstance(item_schema, dict) else None
    members = rest is not None or any(known.values())
    if own is None and items is None and not members:
        return None

    def walk(value: Any, path: str, causes: list[Cause]) -> None:
        if own is not None:
            causes.extend(own(value, path))
        if members and isinstance(value, dict):
            for key, item in value.items():
                inner = known.get(key, rest)
                if inner is not None:
                    inner(item, _member_path(path, key) if key in known else f"{path}[{key}]", causes)
        elif items is not None and isinstance(value, list):
            for i, item in enumerate(value):
                items(item, f"{path}[{i}]", causes)

    return walk


def _member_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _child_values(schema: Raw, value: Any, path: str) -> Iterator[tuple[Raw, Any, str, str | int]]:
    """(schema, value, path, key or index) of each child that the schema describes."""
    if isinstance(value, dict):
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            if key in properties:
                yield properties[key], item, _member_path(path, key), key
            elif isinstance(rest, dict):
                yield rest, item, f"{path}[{key}]", key
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for i, item in enumerate(value):
            yield schema["items"], item, f"{path}[{i}]", i


def _item_key(item: Any, keys: Sequence[str], defaults: Raw) -> Any:
    """The key fields that identify an item of a map list."""
    if not isinstance(item, dict):
        return None
    return {key: item.get(key, defaults.get(key)) for key in keys if key in item or key in defaults}


def _item_defaults(schema: Raw) -> Raw:
    properties = (schema.get("items") or {}).get("properties") or {}
    return {key: child["default"] for key, child in properties.items() if "default" in child}


def _duplicates_check(schema: Raw) -> NodeCheck | None:
    """Checks that a list of type set or map has no duplicates."""
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return None

    def visit(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, list):
            yield from (
                _duplicates_in_map_list(schema, value, path) if kind == "map" else _duplicates_in_set(value, path)
            )

    return visit


def _duplicates_in_map_list(schema: Raw, value: list[Any], path: str) -> Iterator[Cause]:
    for i, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield invalid(f"{path}[{i}]", item, "must be an object for an array of list-type map")
            return
    defaults, keys = _item_defaults(schema), schema.get("x-kubernetes-list-map-keys") or ()
    yield from _duplicates_in_set([_item_key(item, keys, defaults) if item is not None else {} for item in value], path)


def _duplicates_in_set(items: list[Any], path: str) -> Iterator[Cause]:
    earlier: set[str] = set()
    for i, identity in enumerate(items):
        text = json.dumps(identity, sort_keys=True)
        if text in earlier:
            yield duplicate(f"{path}[{i}]", identity)
        earlier.add(text)


def _without_own_metadata(schema: Raw) -> Raw:
    """The schema of a whole object without its own metadata, which is not that of an embedded object."""
    properties = {**(schema.get("properties") or {}), "metadata": {}}
    return {**schema, "properties": properties, "x-kubernetes-embedded-resource": False}


def _embedded_object_check(schema: Raw) -> NodeCheck | None:
    """Checks apiVersion, kind and metadata of embedded objects."""
    if not schema.get("x-kubernetes-embedded-resource"):
        return None
    return lambda value, path: _embedded_object_causes(value, path) if isinstance(value, dict) else iter(())


def _embedded_object_causes(value: Raw, path: str) -> Iterator[Cause]:
    for key in ("apiVersion", "kind"):
        if key not in value:
            yield required(_member_path(path, key), "must not be empty")
        elif not isinstance(value[key], str):
            yield invalid(_member_path(path, key), value[key], "must be a string")
        elif not value[key]:
            yield invalid(_member_path(path, key), value[key], "must not be empty")
    if str(value.get("apiVersion", "")).count("/") > 1:
        where = _member_path(path, "apiVersion")
        yield invalid(where, value["apiVersion"], f"unexpected GroupVersion string: {value['apiVersion']}")
    kind = value.get("kind")
    for error in service_name_faults(kind.lower()) if isinstance(kind, str) and kind else ():
        yield invalid(_member_path(path, "kind"), kind, f"may have mixed case, but should otherwise match: {error}")
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield invalid(_member_path(path, "metadata"), metadata, "must be an object")


def _without_unchanged(problems: list[Problem], schema: Raw, value: Any, old: Any) -> list[Problem]:
    """The problems without those in nodes that are unchanged."""
    if old is None or not problems:
        return problems
    root = _SchemaNode(schema, value, old, "")
    if root.is_unchanged:
        return []
    return [problem for problem in problems if not _is_unchanged(problem.node, root)]


def _is_unchanged(steps: Path, node: "_SchemaNode | None") -> bool:
    for step in steps:
        node = node.child(step) if node is not None else None
        if node is None or node.old is None:
            return False
        if node.is_unchanged:
            return True
    return False


_STRING_OR_OLD_SELF = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\.\s*oldSelf\b|\boldSelf\b""")
_CAUSE_BUILDERS: dict[str, Callable[[str, str], Cause]] = {
    "FieldValueInvalid": invalid_without_value,
    "FieldValueForbidden": forbidden,
    "FieldValueRequired": required,
    "FieldValueDuplicate": lambda field, detail: Cause("FieldValueDuplicate", f"Duplicate value: {detail}", field),
}


class _SchemaNode:
    """A value with its schema, its path and its old value; each child is made, and compared with its old value, once."""

    def __init__(self, schema: Raw, value: Any, old: Any, path: str) -> None:
        self.schema, self.value, self.old, self.path = schema, value, old, path

    @cached_property
    def is_unchanged(self) -> bool:
        return bool(self.value == self.old)

    @cached_property
    def children(self) -> "dict[str | int, _SchemaNode]":
        return {
            key: _SchemaNode(child, item, self._old_value(item, key), path)
            for child, item, path, key in _child_values(self.schema, self.value, self.path)
        }

    def child(self, step: str | int) -> "_SchemaNode | None":
        return self.children.get(step)

    @cached_property
    def _old_items(self) -> dict[str, Any]:
        """The old items of a map list by their keys."""
        keys, defaults = self.schema.get("x-kubernetes-list-map-keys") or (), _item_defaults(self.schema)
        found: dict[str, Any] = {}
        for item in self.old:
            found.setdefault(_format_key(_item_key(item, keys, defaults)), item)
        return found

    def _old_value(self, item: Any, key: str | int) -> Any:
        """The old value of a child: by name in an object, by key in a map list, unknown in other lists."""
        if isinstance(self.old, dict):
            return self.old.get(key)
        if isinstance(self.old, list) and self.schema.get("x-kubernetes-list-type") == "map":
            keys, defaults = self.schema.get("x-kubernetes-list-map-keys") or (), _item_defaults(self.schema)
            return self._old_items.get(_format_key(_item_key(item, keys, defaults)))
        return None


def _format_key(key: Any) -> str:
    return json.dumps(key, sort_keys=True)


class _OutOfBudget(Exception):
    """The rules of an object read more values than they may."""


class _RuleBudget:
    """Counts the values that rules read."""

    def __init__(self) -> None:
        self._remaining = MAX_RULE_STEPS

    def spend(self, value: Any) -> None:
        """Count an evaluation about a value and its old value, which are converted for it."""
        self._remaining -= _EVALUATION_STEPS
        pending = [value]
        while pending:
            node = pending.pop()
            self._remaining -= 1
            if self._remaining < 0:
                raise _OutOfBudget
            if isinstance(node, dict | list):
                pending.extend(node.values() if isinstance(node, dict) else node)


def _rule_causes(node: _SchemaNode, cel: CelEvaluator) -> list[Cause]:
    """Causes found by CEL rules: those of a node first, then those of its children."""
    found: list[Cause] = []
    try:
        _collect_rule_causes(node, cel, _RuleBudget(), found)
    except _OutOfBudget:
        found.append(_OUT_OF_BUDGET)
    return found


def _collect_rule_causes(node: _SchemaNode, cel: CelEvaluator, budget: _RuleBudget, found: list[Cause]) -> None:
    if node.value is None:
        return
    for rule in node.schema.get("x-kubernetes-validations") or ():
        cause = _rule_cause(rule, node, cel, budget)
        found += [] if cause is None else [cause]
    for child in node.children.values():
        _collect_rule_causes(child, cel, budget, found)


def _rule_cause(rule: Raw, node: _SchemaNode, cel: CelEvaluator, budget: _RuleBudget) -> Cause | None:
    uses_old = "oldSelf" in rule["rule"]
    if node.old is None and uses_old and not rule.get("optionalOldSelf"):
        return None
    if node.old is not None and not uses_old and node.is_unchanged:
        return None
    budget.spend([node.value, node.old])
    message = rule.get("message") or f"failed rule: {rule['rule']}"
    path = node.path or "<nil>"
    try:
        if cel(_with_optional_old(rule, "rule", node), node.schema, node.value, node.old):
            return None
    except CelError as error:
        return invalid(path, node.schema.get("type", ""), f"{error} evaluating rule: {message}")
    if rule.get("messageExpression"):
        message = _evaluate_message(_with_optional_old(rule, "messageExpression", node), node, cel) or message
    field = _member_path(node.path, rule["fieldPath"].lstrip(".")) if rule.get("fieldPath") else path
    return _CAUSE_BUILDERS.get(rule.get("reason", ""), invalid_without_value)(field, message)


def _with_optional_old(rule: Raw, field: str, node: _SchemaNode) -> str:
    """The expression of a rule; with `optionalOldSelf`, oldSelf is an optional value, empty for a new node."""
    expression: str = rule[field]
    if not rule.get("optionalOldSelf"):
        return expression
    value = "optional.none()" if node.old is None else "optional.of(oldSelf)"
    return _STRING_OR_OLD_SELF.sub(lambda found: value if found[0] == "oldSelf" else found[0], expression)


def _evaluate_message(expression: str, node: _SchemaNode, cel: CelEvaluator) -> str:
    """The message that an expression returns; empty when it fails, is blank or has several lines."""
    try:
        text = str(cel(expression, node.schema, node.value, node.old)).strip()
    except CelError:
        return ""
    return "" if "\n" in text else text
