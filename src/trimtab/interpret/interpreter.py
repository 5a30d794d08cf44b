"""The entry point of the interpreter framework: users' scripts first, then webhooks, then the native rules."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from trimtab.api.paths import kind_of, text
from trimtab.api.value import Raw
from trimtab.interpret.lua.sandbox import LIMITS, Executor, Limits, run_script
from trimtab.interpret.lua.scripts import Scripted
from trimtab.interpret.native.native_rules import Native
from trimtab.interpret.operations import Fault, Level, Operation, Uninterpretable

Health = Literal["Healthy", "Unhealthy"]
Profile = Literal["trimtab", "upstream"]


class Interpreter:
    """Levels of rules in order: the first that has a rule for (kind, operation) is used, and its failure is final."""

    def __init__(self, levels: Iterable[Level]) -> None:
        self._levels = tuple(levels)

    @classmethod
    def of(
        cls,
        customizations: Iterable[Raw] = (),
        executor: Executor = run_script,
        *,
        profile: Profile = "trimtab",
        limits: Limits = LIMITS,
        webhook: Level | None = None,
    ) -> "Interpreter":
        """The usual order: customizations, a webhook level if given, native kinds."""
        scripted = Scripted(customizations, executor, limits)
        native = Native(upstream=profile == "upstream")
        return cls([scripted, native] if webhook is None else [scripted, webhook, native])

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        """Whether any level has a rule for (apiVersion, kind) and `operation`."""
        return self._level(gvk, operation) is not None

    def key(self, operation: Operation, *objects: Raw) -> tuple[str, ...]:
        """What a result depends on: the rule's generation and each object's version; equal keys give equal results."""
        gvk = kind_of(objects[0])
        level = self._level(gvk, operation)
        rule = "" if level is None else level.generation(gvk, operation)
        versions = (text(obj, "metadata", field) for obj in objects for field in ("uid", "resourceVersion"))
        return (operation, *gvk, rule, *versions)

    def _level(self, gvk: tuple[str, str], operation: Operation) -> Level | None:
        for level in self._levels:
            if level.interprets(gvk, operation):
                return level
        return None

    def ask(self, operation: Operation, *arguments: Any) -> Any:
        """The result of the first level that has a rule; raises `InterpreterError`."""
        gvk = kind_of(arguments[0])
        level = self._level(gvk, operation)
        if level is None:
            failure = Fault("NoRule", f"no rule for {operation} of {gvk[0]} {gvk[1]}")
            raise Uninterpretable(failure, operation, "nobody")
        return level.answer(operation, arguments)

    def replicas(self, obj: Raw) -> tuple[int, Raw | None]:
        """The desired number of replicas, and what one of them requires."""
        replicas, requirements = self.ask(Operation.REPLICA, obj)
        return replicas, requirements

    def components(self, obj: Raw) -> list[Raw] | None:
        """The components, for a kind with several pod templates."""
        components: list[Raw] | None = self.ask(Operation.COMPONENT, obj)
        return components

    def revise(self, obj: Raw, replicas: int) -> Raw:
        """The object with another number of replicas."""
        revised: Raw = self.ask(Operation.REVISE_REPLICA, obj, replicas)
        return revised

    def retain(self, desired: Raw, observed: Raw) -> Raw:
        """The object to write, with the fields that the member cluster must keep."""
        retained: Raw = self.ask(Operation.RETAIN, desired, observed)
        return retained

    def aggregate(self, obj: Raw, items: Sequence[Raw]) -> Raw:
        """The template with one status merged from its `aggregatedStatus` items."""
        aggregated: Raw = self.ask(Operation.AGGREGATE_STATUS, obj, list(items))
        return aggregated

    def reflect(self, obj: Raw) -> Raw | None:
        """The part of a member object's status that goes into the Work."""
        status: Raw | None = self.ask(Operation.STATUS, obj)
        return status

    def health(self, obj: Raw) -> Health:
        """Healthy when no level has a rule for the kind. A failing rule raises; the health is then Unknown."""
        if not self.interprets(kind_of(obj), Operation.HEALTH):
            return "Healthy"
        return "Healthy" if self.ask(Operation.HEALTH, obj) else "Unhealthy"

    def dependencies(self, obj: Raw) -> list[Raw]:
        """References to the objects that must be propagated with this one."""
        references: list[Raw] = self.ask(Operation.DEPENDENCY, obj)
        return references
