import pytest

from interpret.lua.script_helpers import OBJECT, failure_of, interpreter_with
from trimtab.interpret.operations import Operation


@pytest.mark.parametrize(
    "entry",
    [
        "{kind='Secret',name='s'}", "{apiVersion='v1',name='s'}", "{apiVersion='v1',kind='Secret'}", "5",
        "{apiVersion='v1',kind='Secret',labelSelector={matchExpressions={{key='a',operator='Near'}}}}",
    ],
)  # fmt: skip
def test_invalid_dependency_is_a_bad_result(entry: str) -> None:
    interpreter = interpreter_with(dependencyInterpretation=f"function GetDependencies(o) return {{{entry}}} end")
    assert failure_of(interpreter, Operation.DEPENDENCY, OBJECT).reason == "BadResult"


def test_components_are_parsed() -> None:
    parts = (
        "{{name='driver',replicas=1,replicaRequirements={resourceRequest={cpu='1000m'}}},{name='worker',replicas=3}}"
    )
    interpreter = interpreter_with(componentResource=f"function GetComponents(o) return {parts} end")
    assert interpreter.components(OBJECT) == [
        {"name": "driver", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
        {"name": "worker", "replicas": 3},
    ]


def test_nil_components_are_none() -> None:
    assert interpreter_with(componentResource="function GetComponents(o) return nil end").components(OBJECT) is None


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
def test_result_of_the_wrong_type_is_a_bad_result(operation: Operation, field: str, script: str) -> None:
    more = {Operation.AGGREGATE_STATUS: [[]], Operation.RETAIN: [OBJECT], Operation.REVISE_REPLICA: [1]}
    assert (
        failure_of(interpreter_with(**{field: script}), operation, OBJECT, *more.get(operation, [])).reason
        == "BadResult"
    )


def test_empty_tables_inside_lists_are_restored_by_the_path_of_the_list() -> None:
    obj = OBJECT | {"spec": {"rules": [{"match": {}, "names": []}]}}
    script = "function ReviseReplica(o, n) o.spec.rules[2] = {match = {}, names = {}, more = {}} return o end"
    revised = interpreter_with(replicaRevision=script).revise(obj, 1)
    assert revised["spec"]["rules"] == [{"match": {}, "names": []}, {"match": {}, "names": []}]
