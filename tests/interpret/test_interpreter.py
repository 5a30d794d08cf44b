from collections.abc import Sequence
from typing import Any

import pytest

from interpret.lua.script_helpers import OBJECT, customization, interpreter_with
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import InterpreterError, Operation


def test_script_takes_precedence_over_the_native_rule() -> None:
    script = "function InterpretHealth(o) return false end"
    interpreter = Interpreter.of([customization(kind=("v1", "Pod"), healthInterpretation=script)])
    assert interpreter.health({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}) == "Unhealthy"


def test_native_rule_is_used_for_operations_without_a_script() -> None:
    script = "function InterpretHealth(o) return false end"
    interpreter = Interpreter.of([customization(kind=("v1", "Pod"), healthInterpretation=script)])
    assert interpreter.replicas({"apiVersion": "v1", "kind": "Pod", "spec": {}}) == (1, None)


def test_failure_of_a_script_is_final() -> None:
    interpreter = Interpreter.of(
        [customization(kind=("v1", "Pod"), healthInterpretation="function InterpretHealth(o) end")]
    )
    with pytest.raises(InterpreterError, match="ResourceInterpreterCustomization foo: the health must be"):
        interpreter.health({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}})


class Webhook:
    """A level between scripts and native rules."""

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        return operation is Operation.HEALTH

    def interpret(self, gvk: tuple[str, str], operation: Operation, arguments: Sequence[Any]) -> Any:
        return False

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        return "webhook"


def test_webhook_takes_precedence_over_the_native_rule() -> None:
    interpreter = Interpreter.of(webhook=Webhook())
    assert interpreter.health({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}) == "Unhealthy"


def test_script_takes_precedence_over_a_webhook() -> None:
    script = "function InterpretHealth(o) return true end"
    assert Interpreter.of([customization(healthInterpretation=script)], webhook=Webhook()).health(OBJECT) == "Healthy"


def with_version(version: str) -> dict[str, Any]:
    return OBJECT | {"metadata": {"uid": "u", "resourceVersion": version}}


def test_same_script_and_version_have_the_same_key() -> None:
    interpreter = interpreter_with(healthInterpretation="return 1")
    same = interpreter_with(healthInterpretation="return 1")
    assert interpreter.cache_key(Operation.HEALTH, with_version("1")) == same.cache_key(
        Operation.HEALTH, with_version("1")
    )


def test_another_version_of_the_object_has_another_key() -> None:
    interpreter = interpreter_with(healthInterpretation="return 1")
    assert interpreter.cache_key(Operation.HEALTH, with_version("1")) != interpreter.cache_key(
        Operation.HEALTH, with_version("2")
    )


def test_another_script_has_another_key() -> None:
    one, two = interpreter_with(healthInterpretation="return 1"), interpreter_with(healthInterpretation="return 2")
    assert one.cache_key(Operation.HEALTH, with_version("1")) != two.cache_key(Operation.HEALTH, with_version("1"))
