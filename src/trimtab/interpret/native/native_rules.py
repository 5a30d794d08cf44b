"""The lowest level of rules: the built-in ones for native kinds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trimtab.api.quantity import InvalidQuantity
from trimtab.interpret.native.aggregate import aggregators
from trimtab.interpret.native.dependencies import DEPENDENCIES
from trimtab.interpret.native.health import HEALTH
from trimtab.interpret.native.reflect import NoTemplateGeneration, reflectors, whole_status
from trimtab.interpret.native.replicas import REPLICAS, REVISE
from trimtab.interpret.native.retain import RETAIN
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation

SOURCE = "the built-in rules"


class NativeRules:
    """Native kinds. `upstream` reproduces two rules of Karmada that hide a StatefulSet's progress."""

    def __init__(self, *, upstream: bool = False) -> None:
        self.rules: Mapping[Operation, Mapping[tuple[str, str], Callable[..., Any]]] = {
            Operation.REPLICA: REPLICAS,
            Operation.COMPONENT: {},
            Operation.REVISE_REPLICA: REVISE,
            Operation.RETAIN: RETAIN,
            Operation.AGGREGATE_STATUS: aggregators(upstream=upstream),
            Operation.STATUS: reflectors(upstream=upstream),
            Operation.HEALTH: HEALTH,
            Operation.DEPENDENCY: DEPENDENCIES,
        }

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        return operation is Operation.STATUS or gvk in self.rules[operation]

    def interpret(self, gvk: tuple[str, str], operation: Operation, arguments: Sequence[Any]) -> Any:
        if operation is Operation.STATUS and whole_status(arguments[0]) is None:
            return None
        rule = self.rules[operation].get(gvk, whole_status)
        try:
            return rule(*arguments)
        except NoTemplateGeneration as missing:
            raise InterpreterError(
                InterpreterFailure("NoTemplateGeneration", str(missing)), operation, SOURCE
            ) from missing
        except InvalidQuantity as error:
            raise InterpreterError(InterpreterFailure("BadQuantity", str(error)), operation, SOURCE) from error

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        return "native"
