"""The entry point of the interpreter framework: users' scripts, webhooks, rules for third-party kinds, native rules."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from trimtab.api.paths import api_version_and_kind, string_at
from trimtab.api.value import Raw
from trimtab.interpret.lua.sandbox import LIMITS, Executor, LuaLimits, run_script
from trimtab.interpret.lua.scripts import ScriptRules, index_scripts
from trimtab.interpret.native.native_rules import NativeRules
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, InterpreterLevel, Operation
from trimtab.interpret.thirdparty.customizations import shipped_scripts

Health = Literal["Healthy", "Unhealthy"]
Profile = Literal["trimtab", "upstream"]


class Interpreter:
    """Levels of rules in order: the first that has a rule for (kind, operation) is used, and its failure is final."""

    def __init__(self, levels: Iterable[InterpreterLevel]) -> None:
        self._levels = tuple(levels)

    @classmethod
    def of(
        cls,
        customizations: Iterable[Raw] = (),
        executor: Executor = run_script,
        *,
        profile: Profile = "trimtab",
        limits: LuaLimits = LIMITS,
        webhook: InterpreterLevel | None = None,
    ) -> "Interpreter":
        """The usual order: customizations, a webhook level if given, shipped rules for third-party kinds, native kinds."""
        shipped = ScriptRules(shipped_scripts(profile), executor, limits, source="the shipped rules")
        levels: list[InterpreterLevel] = [shipped, NativeRules(upstream=profile == "upstream")]
        if webhook is not None:
            levels.insert(0, webhook)
        if scripts := index_scripts(customizations):
            levels.insert(0, ScriptRules(scripts, executor, limits))
        return cls(levels)

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        """Whether any level has a rule for (apiVersion, kind) and `operation`."""
        return self._level_for(gvk, operation) is not None

    def cache_key(self, operation: Operation, *objects: Raw) -> tuple[str, ...]:
        """What a result depends on: the rule's generation and each object's version; equal keys give equal results."""
        gvk = api_version_and_kind(objects[0])
        level = self._level_for(gvk, operation)
        rule = "" if level is None else level.generation(gvk, operation)
        versions = (string_at(obj, "metadata", field) for obj in objects for field in ("uid", "resourceVersion"))
        return (operation, *gvk, rule, *versions)

    def _level_for(self, gvk: tuple[str, str], operation: Operation) -> InterpreterLevel | None:
        for level in self._levels:
            if level.interprets(gvk, operation):
                return level
        return None

    def interpret(self, operation: Operation, *arguments: Any) -> Any:
        """The result of the first level that has a rule; raises `InterpreterError`."""
        gvk = api_version_and_kind(arguments[0])
        level = self._level_for(gvk, operation)
        if level is None:
            failure = InterpreterFailure("NoRule", f"no rule for {operation} of {gvk[0]} {gvk[1]}")
            raise InterpreterError(failure, operation, "no interpreter")
        return level.interpret(gvk, operation, arguments)

    def replicas(self, obj: Raw) -> tuple[int, Raw | None]:
        """The desired number of replicas, and what one of them requires."""
        replicas, requirements = self.interpret(Operation.REPLICA, obj)
        return replicas, requirements

    def components(self, obj: Raw) -> list[Raw] | None:
        """The components, for a kind with several pod templates."""
        components: list[Raw] | None = self.interpret(Operation.COMPONENT, obj)
        return components

    def revise(self, obj: Raw, replicas: int) -> Raw:
        """The object with another number of replicas."""
        revised: Raw = self.interpret(Operation.REVISE_REPLICA, obj, replicas)
        return revised

    def retain(self, desired: Raw, observed: Raw) -> Raw:
        """The object to write, with the fields that the member cluster must keep."""
        retained: Raw = self.interpret(Operation.RETAIN, desired, observed)
        return retained

    def aggregate(self, obj: Raw, items: Sequence[Raw]) -> Raw:
        """The template with one status merged from its `aggregatedStatus` items."""
        aggregated: Raw = self.interpret(Operation.AGGREGATE_STATUS, obj, list(items))
        return aggregated

    def reflect(self, obj: Raw) -> Raw | None:
        """The part of a member object's status that goes into the Work."""
        status: Raw | None = self.interpret(Operation.STATUS, obj)
        return status

    def health(self, obj: Raw) -> Health:
        """Healthy when no level has a rule for the kind. A failing rule raises; the health is then Unknown."""
        gvk = api_version_and_kind(obj)
        level = self._level_for(gvk, Operation.HEALTH)
        is_healthy = level is None or level.interpret(gvk, Operation.HEALTH, (obj,))
        return "Healthy" if is_healthy else "Unhealthy"

    def dependencies(self, obj: Raw) -> list[Raw]:
        """References to the objects that must be propagated with this one."""
        references: list[Raw] = self.interpret(Operation.DEPENDENCY, obj)
        return references
