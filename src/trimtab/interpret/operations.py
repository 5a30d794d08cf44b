"""The questions one can ask about a workload kind, as users of the interpreter framework know them."""

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


class Fault(NamedTuple):
    """Why a question got no answer: a CamelCase reason for machines, a sentence for people."""

    reason: str
    message: str


class Uninterpretable(Exception):
    """A question has no answer; `fault` says why and `source` whose rule failed."""

    def __init__(self, fault: Fault, operation: str, source: str) -> None:
        super().__init__(f"{operation} by {source}: {fault.message}")
        self.fault = fault
        self.operation = operation
        self.source = source


class Level(Protocol):
    """One layer of rules; the first layer that knows (kind, operation) answers, and its fault is final."""

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool: ...

    def answer(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        """The answer in plain values; raises `Uninterpretable`. The object asked about comes first."""

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        """Changes whenever the rule does."""
