"""The operations of the resource interpreter framework, and the protocol of its levels."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Operation(StrEnum):
    REPLICA = "InterpretReplica"
    COMPONENT = "InterpretComponent"
    REVISE_REPLICA = "ReviseReplica"
    RETAIN = "Retain"
    AGGREGATE_STATUS = "AggregateStatus"
    STATUS = "InterpretStatus"
    HEALTH = "InterpretHealth"
    DEPENDENCY = "InterpretDependency"


class InterpreterFailure(NamedTuple):
    """Why an operation has no result: a CamelCase reason for machines, a sentence for people."""

    reason: str
    message: str


class InterpreterError(Exception):
    """An operation has no result; `failure` says why and `source` whose rule failed."""

    def __init__(self, failure: InterpreterFailure, operation: str, source: str) -> None:
        super().__init__(f"{operation} by {source}: {failure.message}")
        self.failure = failure
        self.operation = operation
        self.source = source


class InterpreterLevel(Protocol):
    """One level of rules; the first level that has a rule for (kind, operation) is used, and its failure is final."""

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool: ...

    def interpret(self, gvk: tuple[str, str], operation: Operation, arguments: Sequence[Any]) -> Any:
        """The result in plain values; raises `InterpreterError`. The object in question is the first argument."""

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        """Changes whenever the rule changes."""
