"""CEL expressions of admission policies: compiled once, evaluated over the object, the request and the parameters."""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from trimtab.api.field_errors import invalid
from trimtab.api.kinds.native.rules.match_rules import MAX_CONDITIONS
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.interpret.cel.cost import estimate_cost
from trimtab.interpret.cel.type_check import check_types, position_of_name, type_of_schema
from trimtab.server.auth.access_checks import VARIABLE_TYPES, authorizer_overloads, evaluate_program

ADMISSION_POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer")
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_CACHE_SIZE = 1024
_COST_LIMIT = 1_000_000
_COST_BUDGET = 10_000_000
"""Units that one expression, and all expressions of a policy for one request, may cost; as many as in Kubernetes."""


class PolicyError(Exception):
    """An expression cannot be compiled or evaluated."""


class PolicyExpressions:
    """Compiles and evaluates; needs the extra `cel`."""

    def __init__(self) -> None:
        self._module: Any = None
        self._environment: Any = None
        self._programs: dict[str, Any] = {}
        self._budget = _COST_BUDGET

    @property
    def is_available(self) -> bool:
        return find_spec("cel_expr_python") is not None

    def compile(self, text: str) -> Any:
        program = self._programs.get(text)
        if program is None:
            if not self.is_available:
                raise PolicyError("admission policies need the extra cel: pip install trimtab[cel]")
            if self._environment is None:  # loaded late: most servers never evaluate a policy
                self._module = importlib.import_module("trimtab.interpret.cel.expressions")
                self._environment = self._module.ExpressionEnvironment(
                    authorizer_overloads(), dict.fromkeys(VARIABLES, "dyn") | VARIABLE_TYPES
                )
            if len(self._programs) >= _CACHE_SIZE:
                self._programs.clear()
            try:
                program = self._programs[text] = self._environment.compile(text)
            except self._module.ExpressionError as error:
                raise PolicyError(f"compilation failed: {error}") from error
        return program

    def fault(self, text: str, result: str, *, has_params: bool, known: Collection[str]) -> str:
        """Why an expression cannot be used where its result must be a `result` (any for an empty one); empty when it can.

        `known` are the variables of the policy that stand before it.
        """
        try:
            program = self.compile(text)
        except PolicyError as error:
            return str(error)
        variables = {"type": "object", "properties": dict.fromkeys(known, _ANYTHING)}
        if fault := check_types(text, {"variables": type_of_schema(variables)}):
            return f"compilation failed: {fault}"
        if not has_params and (at := position_of_name(text, "params")) is not None:
            where = f"undeclared reference to 'params' (in container '')\n | {text}\n | {'.' * at}^"
            return f"compilation failed: ERROR: <input>:1:{at + 1}: {where}"
        found = str(program.return_type()).lower()
        if not result or found in (result, "dyn") or (result == "string or null" and found in ("string", "null")):
            return ""
        wanted = "one of [string null_type]" if result == "string or null" else result
        return f"must evaluate to {wanted} but got {found}"

    def start_budget(self) -> None:
        """Begin to count the cost of the expressions for another request."""
        self._budget = _COST_BUDGET

    def evaluate(self, text: str, values: Mapping[str, Any]) -> Any:
        program = self.compile(text)
        cost = estimate_cost(text, values)
        if cost > _COST_LIMIT:
            raise PolicyError("operation cancelled: actual cost limit exceeded")
        self._budget -= cost
        if self._budget < 0:
            raise PolicyError(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
        try:
            result = evaluate_program(program, {name: values.get(name) for name in VARIABLES})
        except (RuntimeError, TypeError) as error:
            raise PolicyError(str(error)) from error
        if str(result.type()) == "ERROR":
            raise PolicyError(str(result.value()))
        return result.plain_value()


def policy_validator(expressions: PolicyExpressions) -> Callable[[Raw, Raw | None], list[Cause]]:
    """A function that tells which expressions of a policy do not compile; without the extra `cel` none is checked."""

    def policy_causes(obj: Raw, old: Raw | None) -> list[Cause]:
        spec = obj.get("spec") or {}
        if not expressions.is_available or (old is not None and old.get("spec") == spec):
            return []
        return list(_expression_causes(expressions, spec))

    return policy_causes


def _expression_causes(expressions: PolicyExpressions, spec: Raw) -> Iterator[Cause]:
    known: list[str] = []

    def check(holder: Raw, key: str, field: str, result: str, variables: Collection[str]) -> Iterator[Cause]:
        text = holder.get(key) or ""
        has_params = spec.get("paramKind") is not None
        if text.strip() and (why := expressions.fault(text, result, has_params=has_params, known=variables)):
            yield invalid(f"{field}.{key}", text, why)

    for index, condition in enumerate((spec.get("matchConditions") or ())[:MAX_CONDITIONS]):
        yield from check(condition, "expression", f"spec.matchConditions[{index}]", "bool", ())
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from check(variable, "expression", f"spec.variables[{index}]", "", known)
        known.append(variable.get("name") or "")
    for index, validation in enumerate(spec.get("validations") or ()):
        field = f"spec.validations[{index}]"
        yield from check(validation, "expression", field, "bool", known)
        yield from check(validation, "messageExpression", field, "string", known)
    for index, annotation in enumerate(spec.get("auditAnnotations") or ()):
        yield from check(annotation, "valueExpression", f"spec.auditAnnotations[{index}]", "string or null", known)


def variable_values(
    expressions: PolicyExpressions, variables: list[Raw], values: Mapping[str, Any]
) -> tuple[Raw, dict[str, str]]:
    """The variables of a policy in order, and why those without a value have none."""
    found: Raw = {}
    errors: dict[str, str] = {}
    for variable in variables:
        try:
            found[variable["name"]] = expressions.evaluate(variable["expression"], {**values, "variables": found})
        except PolicyError as error:
            errors[variable["name"]] = str(error)
    return found, errors
