"""Our functions agree with recorded inputs and outputs of Karmada's functions."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trimtab.api.affinity import affinity_matcher
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ClusterAffinity, ResourceSelector
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.scripts import HOOKS
from trimtab.interpret.match import selector_priority
from trimtab.interpret.names import binding_name, binding_reference_key, work_name
from trimtab.interpret.operations import InterpreterError, Operation
from trimtab.interpret.overrides.image import InvalidImage, override_image
from trimtab.interpret.prune import prune

VECTORS = json.loads((Path(__file__).parent / "karmada-vectors.json").read_text())["vectors"]
NATIVE = Interpreter.of(profile="upstream")
FIELDS = {operation: field for operation, (field, _) in HOOKS.items()}


def scripted_interpreter(vector: dict[str, Any], operation: Operation) -> Interpreter:
    obj = vector["object"]
    target = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    customizations = {FIELDS[operation]: {"luaScript": vector["script"]}}
    spec = {"target": target, "customizations": customizations}
    return Interpreter.of([{"metadata": {"name": "vector"}, "spec": spec}], profile="upstream")


def sort_references(references: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(reference, sort_keys=True) for reference in references)


def run_operation(vector: dict[str, Any], interpreter: Interpreter, operation: Operation) -> Any:
    obj = vector["object"]
    match operation:
        case Operation.REPLICA:
            replicas, requirements = interpreter.replicas(obj)
            return {"replicas": replicas, "requirements": requirements}
        case Operation.REVISE_REPLICA:
            return interpreter.revise(obj, vector["replica"])
        case Operation.RETAIN:
            return interpreter.retain(obj, vector["observed"])
        case Operation.AGGREGATE_STATUS:
            return interpreter.aggregate(obj, vector["items"])
        case Operation.DEPENDENCY:
            return sort_references(interpreter.dependencies(obj))
        case _:
            return interpreter.interpret(operation, obj)


OPERATIONS = {
    "health": Operation.HEALTH,
    "replicas": Operation.REPLICA,
    "revise": Operation.REVISE_REPLICA,
    "reflect": Operation.STATUS,
    "aggregate": Operation.AGGREGATE_STATUS,
    "deps": Operation.DEPENDENCY,
    "retain": Operation.RETAIN,
}
PLAIN = {
    "bindingName": binding_name,
    "workName": work_name,
    "bindingRef": binding_reference_key,
    "image": override_image,
}


def our_result(vector: dict[str, Any]) -> Any:
    operation = vector["op"]
    if operation in PLAIN:
        return PLAIN[operation](*vector["args"])
    if operation == "prune":
        return prune(vector["object"])
    if operation == "clusterMatches":
        affinity = msgspec.convert(vector["affinity"], ClusterAffinity)
        return affinity_matcher(affinity)(msgspec.convert(vector["cluster"], Cluster))
    if operation == "selectorPriority":
        return selector_priority(msgspec.convert(vector["selector"], ResourceSelector), vector["object"])
    if operation.startswith("lua"):
        native_operation = OPERATIONS[operation[3:].lower()]
        return run_operation(vector, scripted_interpreter(vector, native_operation), native_operation)
    found = run_operation(vector, NATIVE, OPERATIONS[operation])
    return found.get("status") if operation == "aggregate" else found


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["op"])
def test_our_result_equals_the_recorded_one(vector: dict[str, Any]) -> None:
    if vector.get("error"):
        with pytest.raises((InterpreterError, InvalidImage)):
            our_result(vector)
        return
    expected = vector["result"]
    if vector["op"] in ("deps", "luaDeps"):
        expected = sort_references(expected)
    assert our_result(vector) == expected
