"""Customizations and interpreters for tests of Lua scripts."""

from typing import Any

import pytest

from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation

FOO = ("ex.io/v1", "Foo")
OBJECT = {"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "x", "namespace": "ns"}, "spec": {"size": 2}}


def customization(name: str = "foo", kind: tuple[str, str] = FOO, **scripts: str) -> dict[str, Any]:
    spec = {
        "target": {"apiVersion": kind[0], "kind": kind[1]},
        "customizations": {field: {"luaScript": script} for field, script in scripts.items()},
    }
    return {"metadata": {"name": name}, "spec": spec}


def interpreter_with(**scripts: str) -> Interpreter:
    return Interpreter.of([customization(**scripts)])


def failure_of(interpreter: Interpreter, operation: Operation, *arguments: Any) -> InterpreterFailure:
    with pytest.raises(InterpreterError) as raised:
        interpreter.interpret(operation, *arguments)
    return raised.value.failure
