from collections.abc import Sequence
from typing import Any

from interpret.lua.script_helpers import FOO, OBJECT, customization
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.sandbox import LuaLimits, ScriptResult
from trimtab.interpret.operations import InterpreterFailure, Operation


def test_first_customization_by_name_wins() -> None:
    one = customization("a", healthInterpretation="function InterpretHealth(o) return true end")
    two = customization("b", healthInterpretation="function InterpretHealth(o) return false end")
    assert Interpreter.of([two, one]).health(OBJECT) == "Healthy"


def test_dependencies_of_all_customizations_are_merged() -> None:
    script = "function GetDependencies(o) return {{apiVersion='v1',kind='Secret',name='%s'},{apiVersion='v1',kind='Secret',name='s'}} end"
    one, two = (customization(name, dependencyInterpretation=script % name) for name in "ab")
    assert [ref["name"] for ref in Interpreter.of([one, two]).dependencies(OBJECT)] == ["a", "b", "s"]


def test_short_form_of_a_customization_is_accepted() -> None:
    spec = {
        "target": {"apiVersion": "ex.io/v1", "kind": "Foo"},
        "healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end"},
    }
    assert Interpreter.of([{"metadata": {"name": "x"}, "spec": spec}]).interprets(FOO, Operation.HEALTH)


def test_executor_is_a_parameter() -> None:
    calls = []

    def executor(
        script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits
    ) -> ScriptResult | InterpreterFailure:
        calls.append(hook)
        return ScriptResult((True,))

    interpreter = Interpreter.of([customization(healthInterpretation="whatever")], executor)
    assert interpreter.health(OBJECT) == "Healthy"
    assert calls == ["InterpretHealth"]
