"""CEL expressions of admission policies: compiled once, evaluated over the object, the request and the parameters."""

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from trimtab.api.value import Raw
from trimtab.interpret.cel.cost import estimate_cost
from trimtab.server.auth.access_checks import VARIABLE_TYPES, authorizer_overloads, evaluate_program

VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer")
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
