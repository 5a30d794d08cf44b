"""CEL validation rules of custom resources."""

import importlib
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from trimtab.api.schema.structural import CelError
from trimtab.api.schema.structural_check import RuleFault, RulePlace
from trimtab.api.value import Raw
from trimtab.interpret.cel.cost import count_iterations, estimate_cost
from trimtab.interpret.cel.library import Overload
from trimtab.interpret.cel.type_check import COST_LIMIT as STATIC_COST_LIMIT
from trimtab.interpret.cel.type_check import check_types, max_size, position_of_name, type_of_schema
from trimtab.interpret.cel.type_check import estimate_cost as estimate_static_cost
from trimtab.server.auth.access_checks import VARIABLE, VARIABLE_TYPES, authorizer_overloads, evaluate_program

_NOT_INSTALLED = 'CEL expressions are not supported by this installation: install Trimtab with the extra "cel"'
_CACHE_SIZE = 2048
_COST_LIMIT = 1_000_000
_STEPS_PER_ITERATION = 3
_ESTIMATE_TOLERANCE = 10
"""The estimate is coarser than that of kube-apiserver, whose definitions must not be refused."""
_TOO_EXPENSIVE = "operation cancelled: actual cost limit exceeded"
_MISSING_KEY = re.compile(r'Key not found in map : "([^"]*)"')
_STATUS_PREFIX = re.compile(r"^[A-Z_]+: ")


def _to_cel_value(schema: Raw, value: Any) -> Any:
    """The value with the types of its schema: a float in an integer field has no CEL value."""
    kind = schema.get("type")
    if kind == "integer" and isinstance(value, float):
        raise CelError("invalid data, expected int, got float64")
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dict):
        known, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        rest = rest if isinstance(rest, dict) else {}
        return {key: _to_cel_value(known.get(key, rest), item) for key, item in value.items()}
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
        return [_to_cel_value(items or {}, item) for item in value]
    return value


def _kubernetes_message(fault: str) -> str:
    """The error in the words of Kubernetes."""
    if "Iteration budget exceeded" in fault:
        return _TOO_EXPENSIVE
    missing = _MISSING_KEY.search(fault)
    return f"no such key: {missing[1]}" if missing else _STATUS_PREFIX.sub("", fault)


class CelExpressions:
    """Evaluates CEL expressions over some variables of any type; each expression is compiled once."""

    def __init__(self, variables: Iterable[str]) -> None:
        self._variables = dict.fromkeys(variables, "dyn")
        self._overloads: list[Overload] = []
        if VARIABLE in self._variables:
            self._variables |= VARIABLE_TYPES
            self._overloads = authorizer_overloads()
        self._environment: Any = None
        self._compile_error: type[Exception] = RuntimeError
        self._compiled: dict[str, Any] = {}

    def evaluate(self, expression: str, variables: Mapping[str, Any]) -> Any:
        """The value of an expression; raises `CelError`."""
        program = self._program(expression)
        if estimate_cost(expression, variables) > _COST_LIMIT:
            raise CelError(_TOO_EXPENSIVE)
        try:
            result = evaluate_program(program, variables)
        except RuntimeError as error:
            raise CelError(_kubernetes_message(str(error))) from error
        if str(result.type()) == "ERROR":
            raise CelError(_kubernetes_message(str(result.value())))
        return result.value()

    def compile_error(self, expression: str, is_condition: bool) -> str:
        """Why an expression cannot be used in a rule; empty when it can."""
        try:
            program = self._program(expression)
        except CelError as error:
            return str(error)
        wanted = "BOOL" if is_condition else "STRING"
        found = str(program.return_type())
        return "" if found in (wanted, "DYN") else f"must evaluate to a {wanted.lower()}, not {found.lower()}"

    def _program(self, expression: str) -> Any:
        program = self._compiled.get(expression)
        if program is None:
            if len(self._compiled) >= _CACHE_SIZE:
                self._compiled.clear()
            if self._environment is None:
                # loaded late: most servers never evaluate a rule, and importing the evaluator is slow
                evaluator = importlib.import_module("trimtab.interpret.cel.expressions")
                self._environment = evaluator.ExpressionEnvironment(self._overloads, self._variables)
                self._compile_error = evaluator.ExpressionError
            try:
                program = self._compiled[expression] = self._environment.compile(expression)
            except self._compile_error as error:
                raise CelError(f"compilation failed: {error}") from error
        return program


class CelRuleEvaluator(CelExpressions):
    """Evaluates the CEL rules of schemas."""

    def __init__(self) -> None:
        super().__init__(("self", "oldSelf"))

    def __call__(self, expression: str, schema: Raw, value: Any, old: Any) -> Any:
        variables = {"self": _to_cel_value(schema, value), "oldSelf": _to_cel_value(schema, old)}
        try:
            if _STEPS_PER_ITERATION * count_iterations(expression, variables) <= _COST_LIMIT:
                return self.evaluate(expression, variables)
        except CelError as error:
            if str(error) != _TOO_EXPENSIVE:
                raise
        why = "no further validation rules will be run due to call cost exceeds limit for rule"
        raise CelError(f"{why}: {expression}")

    def check(self, expression: str, is_condition: bool, place: RulePlace) -> RuleFault | None:
        """Why a rule cannot be used in its place: it does not compile, does not fit the schema, or costs too much."""
        self_type = type_of_schema(with_object_fields(place.schema) if place.is_root else place.schema)
        variables = {"self": self_type, "oldSelf": self_type}
        prefix = "" if is_condition else "messageExpression "
        if why := check_types(expression, variables):
            return RuleFault(f"{prefix}compilation failed: {why}")
        if why := self.compile_error(expression, is_condition):
            return RuleFault(why)
        if place.uncorrelated and position_of_name(expression, "oldSelf") is not None:
            where = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
            return RuleFault(where)
        places = math.prod(max_size(type_of_schema(schema)) for schema in place.enclosing)
        excess = _excess_message(estimate_static_cost(expression, variables) * places)
        return RuleFault(excess, is_forbidden=True) if excess else None


def with_object_fields(schema: Raw) -> Raw:
    """The schema of a whole object, of whose metadata rules see only the names."""
    text = {"type": "string"}
    metadata = {"type": "object", "properties": {"name": text, "generateName": text}}
    further = {"apiVersion": text, "kind": text, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **further}}


def _excess_message(cost: int) -> str:
    if cost <= STATIC_COST_LIMIT * _ESTIMATE_TOLERANCE:
        return ""
    factor = cost / STATIC_COST_LIMIT
    times = "more than 100x" if factor > 100 else f"{factor:.1f}x"
    return (
        f"estimated rule cost exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


class NoExpressions:
    """Refuses every expression: stands for the evaluator where the extra `cel` is not installed."""

    def evaluate(self, expression: str, variables: Mapping[str, Any]) -> Any:
        raise CelError(_NOT_INSTALLED)

    def compile_error(self, expression: str, is_condition: bool) -> str:
        return _NOT_INSTALLED

    def check(self, expression: str, is_condition: bool, place: RulePlace) -> RuleFault | None:
        return RuleFault(_NOT_INSTALLED)


def _is_installed() -> bool:
    return find_spec("cel_expr_python") is not None


@cache
def rule_evaluator() -> CelRuleEvaluator | None:
    """The evaluator of rules, or None if the extra `cel` is not installed.

    All API servers of a process share it: an environment needs half a megabyte, and the same rules are compiled once.
    """
    return CelRuleEvaluator() if _is_installed() else None


@cache
def condition_evaluator(*variables: str) -> CelExpressions | NoExpressions:
    """The evaluator of expressions over these variables, shared like that of rules."""
    return CelExpressions(variables) if _is_installed() else NoExpressions()
