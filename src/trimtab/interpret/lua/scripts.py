"""Lua rules of users: ResourceInterpreterCustomizations, merged per kind."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from trimtab.api.paths import object_at, string_at, value_at
from trimtab.api.value import Raw
from trimtab.interpret.lua.sandbox import LIMITS, Executor, LuaLimits
from trimtab.interpret.lua.script_results import InvalidScriptResult, parse_script_result
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation

HOOKS: Mapping[Operation, tuple[str, str]] = {
    Operation.RETAIN: ("retention", "Retain"),
    Operation.REPLICA: ("replicaResource", "GetReplicas"),
    Operation.COMPONENT: ("componentResource", "GetComponents"),
    Operation.REVISE_REPLICA: ("replicaRevision", "ReviseReplica"),
    Operation.STATUS: ("statusReflection", "ReflectStatus"),
    Operation.AGGREGATE_STATUS: ("statusAggregation", "AggregateStatus"),
    Operation.HEALTH: ("healthInterpretation", "InterpretHealth"),
    Operation.DEPENDENCY: ("dependencyInterpretation", "GetDependencies"),
}
"""For each operation: the field of `spec.customizations` and the Lua function that it must define."""

USERS = "ResourceInterpreterCustomization"


class Script(NamedTuple):
    """One Lua script of one customization."""

    customization: str
    generation: int
    text: str


def scripts_of(customization: Raw) -> dict[Operation, Script]:
    """The scripts of one customization. The short form (`spec.healthInterpretation`) is accepted as well."""
    spec = object_at(customization, "spec")
    name, generation = (
        string_at(customization, "metadata", "name"),
        value_at(customization, "metadata", "generation") or 0,
    )
    found = {}
    for operation, (field, _) in HOOKS.items():
        lua = string_at(spec, "customizations", field, "luaScript") or string_at(spec, field, "luaScript")
        if lua:
            found[operation] = Script(name, generation, lua)
    return found


ScriptIndex: TypeAlias = Mapping[tuple[tuple[str, str], Operation], Sequence[Script]]
"""The scripts of each (apiVersion, kind) and operation, sorted by the names of their customizations."""


def index_scripts(customizations: Iterable[Raw]) -> ScriptIndex:
    found: dict[tuple[tuple[str, str], Operation], list[Script]] = {}
    for customization in sorted(customizations, key=lambda c: string_at(c, "metadata", "name")):
        target = (
            string_at(customization, "spec", "target", "apiVersion"),
            string_at(customization, "spec", "target", "kind"),
        )
        for operation, script in scripts_of(customization).items():
            found.setdefault((target, operation), []).append(script)
    return found


class ScriptRules:
    """Customizations as a level of rules: per kind and operation the first by name wins; dependencies are merged."""

    def __init__(
        self, scripts: ScriptIndex, executor: Executor, limits: LuaLimits = LIMITS, *, source: str = USERS
    ) -> None:
        """`source` says whose scripts these are, for errors."""
        self._scripts = scripts
        self._executor = executor
        self._limits = limits
        self._source = source

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        return (gvk, operation) in self._scripts

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        scripts = self._scripts.get((gvk, operation), ())
        return hashlib.sha256("\0".join(f"{s.customization}\0{s.text}" for s in scripts).encode()).hexdigest()[:16]

    def interpret(self, gvk: tuple[str, str], operation: Operation, arguments: Sequence[Any]) -> Any:
        scripts = self._scripts[gvk, operation]
        if operation is Operation.DEPENDENCY:
            return _merge_dependencies(self._run(script, operation, arguments) for script in scripts)
        return self._run(scripts[0], operation, arguments)

    def _run(self, script: Script, operation: Operation, arguments: Sequence[Any]) -> Any:
        source = f"{self._source} {script.customization}"
        outcome = self._executor(script.text, HOOKS[operation][1], arguments, self._limits)
        if isinstance(outcome, InterpreterFailure):
            raise InterpreterError(outcome, operation, source)
        try:
            return parse_script_result(operation, outcome, arguments)
        except InvalidScriptResult as error:
            raise InterpreterError(InterpreterFailure("BadResult", str(error)), operation, source) from error


def _merge_dependencies(lists: Iterable[list[Raw]]) -> list[Raw]:
    unique = {msgspec.json.encode(ref, order="sorted"): ref for references in lists for ref in references}
    return [unique[key] for key in sorted(unique)]
