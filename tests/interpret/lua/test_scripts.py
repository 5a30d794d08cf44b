from collections.abc import Sequence
from typing import Any

import pytest

from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.sandbox import Limits, Ran
from trimtab.interpret.operations import Fault, Operation, Uninterpretable

FOO = ("ex.io/v1", "Foo")
OBJECT = {"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "x", "namespace": "ns"}, "spec": {"size": 2}}


def customization(name: str = "foo", kind: tuple[str, str] = FOO, **scripts: str) -> dict[str, Any]:
    spec = {
        "target": {"apiVersion": kind[0], "kind": kind[1]},
        "customizations": {field: {"luaScript": script} for field, script in scripts.items()},
    }
    return {"metadata": {"name": name}, "spec": spec}


def interpreter(**scripts: str) -> Interpreter:
    return Interpreter.of([customization(**scripts)])


def fault_of(interpreter: Interpreter, operation: Operation, *arguments: Any) -> Fault:
    with pytest.raises(Uninterpretable) as raised:
        interpreter.ask(operation, *arguments)
    return raised.value.fault


def test_a_script_comes_before_the_built_in_rule() -> None:
    script = "function InterpretHealth(o) return false end"
    ours = Interpreter.of([customization(kind=("v1", "Pod"), healthInterpretation=script)])
    assert ours.health({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}) == "Unhealthy"


def test_what_a_customization_leaves_out_the_built_in_rules_answer() -> None:
    script = "function InterpretHealth(o) return false end"
    ours = Interpreter.of([customization(kind=("v1", "Pod"), healthInterpretation=script)])
    assert ours.replicas({"apiVersion": "v1", "kind": "Pod", "spec": {}}) == (1, None)


def test_a_fault_of_a_script_is_final() -> None:
    ours = Interpreter.of([customization(kind=("v1", "Pod"), healthInterpretation="function InterpretHealth(o) end")])
    with pytest.raises(Uninterpretable, match="ResourceInterpreterCustomization foo: the health must be"):
        ours.health({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}})


class Webhook:
    """A level between scripts and built-in rules."""

    def interprets(self, gvk: tuple[str, str], operation: Operation) -> bool:
        return operation is Operation.HEALTH

    def answer(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        return False

    def generation(self, gvk: tuple[str, str], operation: Operation) -> str:
        return "webhook"


def test_a_webhook_comes_before_the_built_in_rule() -> None:
    ours = Interpreter.of(webhook=Webhook())
    assert ours.health({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}}) == "Unhealthy"


def test_a_script_comes_before_a_webhook() -> None:
    script = "function InterpretHealth(o) return true end"
    assert Interpreter.of([customization(healthInterpretation=script)], webhook=Webhook()).health(OBJECT) == "Healthy"


def test_of_two_customizations_the_first_by_name_wins() -> None:
    one = customization("a", healthInterpretation="function InterpretHealth(o) return true end")
    two = customization("b", healthInterpretation="function InterpretHealth(o) return false end")
    assert Interpreter.of([two, one]).health(OBJECT) == "Healthy"


def test_dependencies_of_all_customizations_are_united() -> None:
    script = "function GetDependencies(o) return {{apiVersion='v1',kind='Secret',name='%s'},{apiVersion='v1',kind='Secret',name='s'}} end"
    one, two = (customization(name, dependencyInterpretation=script % name) for name in "ab")
    assert [ref["name"] for ref in Interpreter.of([one, two]).dependencies(OBJECT)] == ["a", "b", "s"]


@pytest.mark.parametrize(
    "entry",
    [
        "{kind='Secret',name='s'}", "{apiVersion='v1',name='s'}", "{apiVersion='v1',kind='Secret'}", "5",
        "{apiVersion='v1',kind='Secret',labelSelector={matchExpressions={{key='a',operator='Near'}}}}",
    ],
)  # fmt: skip
def test_a_dependency_that_points_nowhere_is_a_fault(entry: str) -> None:
    ours = interpreter(dependencyInterpretation=f"function GetDependencies(o) return {{{entry}}} end")
    assert fault_of(ours, Operation.DEPENDENCY, OBJECT).reason == "BadResult"


def test_components_are_read() -> None:
    parts = (
        "{{name='driver',replicas=1,replicaRequirements={resourceRequest={cpu='1000m'}}},{name='worker',replicas=3}}"
    )
    ours = interpreter(componentResource=f"function GetComponents(o) return {parts} end")
    assert ours.components(OBJECT) == [
        {"name": "driver", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
        {"name": "worker", "replicas": 3},
    ]


def test_no_components_are_none() -> None:
    assert interpreter(componentResource="function GetComponents(o) return nil end").components(OBJECT) is None


@pytest.mark.parametrize(
    ("operation", "field", "script"),
    [
        (Operation.REPLICA, "replicaResource", "function GetReplicas(o) return '3' end"),
        (Operation.REPLICA, "replicaResource", "function GetReplicas(o) return 3, 'much' end"),
        (Operation.REPLICA, "replicaResource", "function GetReplicas(o) return 3, {resourceRequest={cpu='lots'}} end"),
        (Operation.COMPONENT, "componentResource", "function GetComponents(o) return {{replicas=1}} end"),
        (Operation.STATUS, "statusReflection", "function ReflectStatus(o) return 'fine' end"),
        (Operation.AGGREGATE_STATUS, "statusAggregation", "function AggregateStatus(o, items) return {1, 2} end"),
        (Operation.RETAIN, "retention", "function Retain(d, o) end"),
        (Operation.REVISE_REPLICA, "replicaRevision", "function ReviseReplica(o, n) return n end"),
        (Operation.HEALTH, "healthInterpretation", "function InterpretHealth(o) return 'true' end"),
    ],
)
def test_an_answer_of_the_wrong_kind_is_a_fault(operation: Operation, field: str, script: str) -> None:
    more = {Operation.AGGREGATE_STATUS: [[]], Operation.RETAIN: [OBJECT], Operation.REVISE_REPLICA: [1]}
    assert fault_of(interpreter(**{field: script}), operation, OBJECT, *more.get(operation, [])).reason == "BadResult"


def test_empty_tables_inside_lists_are_restored_by_the_path_of_the_list() -> None:
    obj = OBJECT | {"spec": {"rules": [{"match": {}, "names": []}]}}
    script = "function ReviseReplica(o, n) o.spec.rules[2] = {match = {}, names = {}, more = {}} return o end"
    revised = interpreter(replicaRevision=script).revise(obj, 1)
    assert revised["spec"]["rules"] == [{"match": {}, "names": []}, {"match": {}, "names": []}]


def test_the_short_form_of_a_customization_counts() -> None:
    spec = {
        "target": {"apiVersion": "ex.io/v1", "kind": "Foo"},
        "healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end"},
    }
    assert Interpreter.of([{"metadata": {"name": "x"}, "spec": spec}]).interprets(FOO, Operation.HEALTH)


def test_the_library_lists_the_dependencies_of_a_pod_template() -> None:
    script = """
    local kube = require("kube")
    function GetDependencies(o) return kube.getPodDependencies(o.spec.template, nil) end
    """
    obj = OBJECT | {"spec": {"template": {"spec": {"serviceAccountName": "sa"}}}}
    (found,) = interpreter(dependencyInterpretation=script).dependencies(obj)
    assert (found["name"], found["namespace"]) == ("sa", "default")


@pytest.mark.parametrize(("quantity", "amount"), [("'1500m'", 1.5), ("'1Ki'", 1024), ("'2'", 2)])
def test_the_library_turns_quantities_into_numbers(quantity: str, amount: float) -> None:
    script = f"function ReflectStatus(o) return {{n = require('kube').getResourceQuantity({quantity})}} end"
    assert interpreter(statusReflection=script).reflect(OBJECT) == {"n": amount}


@pytest.mark.parametrize(
    "call", ["getResourceQuantity('-1')", "getResourceQuantity('x')", "getResourceQuantity()", "resourceAdd('x')",
             "accuratePodRequirements()", "accuratePodRequirements('x')", "getPodDependencies({})"],
)  # fmt: skip
def test_the_library_refuses_what_makes_no_sense(call: str) -> None:
    script = f"function ReflectStatus(o) return {{n = require('kube').{call}}} end"
    assert fault_of(interpreter(statusReflection=script), Operation.STATUS, OBJECT).reason == "ScriptFailed"


def test_the_executor_is_handed_in() -> None:
    calls = []

    def executor(script: str, hook: str, arguments: Sequence[Any], limits: Limits) -> Ran | Fault:
        calls.append(hook)
        return Ran((True,))

    ours = Interpreter.of([customization(healthInterpretation="whatever")], executor)
    assert ours.health(OBJECT) == "Healthy"
    assert calls == ["InterpretHealth"]


def versioned(version: str) -> dict[str, Any]:
    return OBJECT | {"metadata": {"uid": "u", "resourceVersion": version}}


def test_the_same_script_and_version_have_the_same_key() -> None:
    ours = interpreter(healthInterpretation="return 1")
    again = interpreter(healthInterpretation="return 1")
    assert ours.key(Operation.HEALTH, versioned("1")) == again.key(Operation.HEALTH, versioned("1"))


def test_another_version_of_the_object_has_another_key() -> None:
    ours = interpreter(healthInterpretation="return 1")
    assert ours.key(Operation.HEALTH, versioned("1")) != ours.key(Operation.HEALTH, versioned("2"))


def test_another_script_has_another_key() -> None:
    one, two = interpreter(healthInterpretation="return 1"), interpreter(healthInterpretation="return 2")
    assert one.key(Operation.HEALTH, versioned("1")) != two.key(Operation.HEALTH, versioned("1"))
