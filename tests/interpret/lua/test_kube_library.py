import pytest

from interpret.lua.script_helpers import OBJECT, failure_of, interpreter_with
from trimtab.interpret.operations import Operation


def test_library_lists_the_dependencies_of_a_pod_template() -> None:
    script = """
    local kube = require("kube")
    function GetDependencies(o) return kube.getPodDependencies(o.spec.template, nil) end
    """
    obj = OBJECT | {"spec": {"template": {"spec": {"serviceAccountName": "sa"}}}}
    (found,) = interpreter_with(dependencyInterpretation=script).dependencies(obj)
    assert (found["name"], found["namespace"]) == ("sa", "default")


@pytest.mark.parametrize(("quantity", "amount"), [("'1500m'", 1.5), ("'1Ki'", 1024), ("'2'", 2)])
def test_library_converts_quantities_to_numbers(quantity: str, amount: float) -> None:
    script = f"function ReflectStatus(o) return {{n = require('kube').getResourceQuantity({quantity})}} end"
    assert interpreter_with(statusReflection=script).reflect(OBJECT) == {"n": amount}


@pytest.mark.parametrize(
    "call", ["getResourceQuantity('-1')", "getResourceQuantity('x')", "getResourceQuantity()", "resourceAdd('x')",
             "accuratePodRequirements()", "accuratePodRequirements('x')", "getPodDependencies({})"],
)  # fmt: skip
def test_library_rejects_invalid_arguments(call: str) -> None:
    script = f"function ReflectStatus(o) return {{n = require('kube').{call}}} end"
    assert failure_of(interpreter_with(statusReflection=script), Operation.STATUS, OBJECT).reason == "ScriptFailed"
