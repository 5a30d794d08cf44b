"""The rules for third-party kinds: examples for every operation of every script, and their place below users' rules."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from interpret.lua.script_helpers import customization
from trimtab.api.admission.interpreter import check_customization
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.sandbox import check_syntax, run_script
from trimtab.interpret.operations import InterpreterError, Operation
from trimtab.interpret.thirdparty.customizations import TARGETS, shipped_customizations, shipped_script

EXAMPLES = Path(__file__).parent / "examples"
INTERPRETER = Interpreter.of()


class Example(NamedTuple):
    """One call of one operation: the fields of the file, completed with the kind."""

    script: str
    target: tuple[str, str]
    name: str
    operation: Operation
    arguments: list[Any]
    expected: Any


def examples_of(script: str) -> list[Example]:
    """The cases of a file; a case without `kind` is one of the first kind of the script."""
    found = []
    for case in yaml.safe_load((EXAMPLES / f"{script}.yaml").read_text()):
        target = next(target for target in TARGETS[script] if case.get("kind") in (None, target[1], "/".join(target)))
        gvk = {"apiVersion": target[0], "kind": target[1]}
        arguments = [gvk | case[key] for key in ("desired", "observed") if key in case]
        if "items" in case:
            arguments.append(case["items"])
        if "replicas" in case:
            arguments.append(case["replicas"])
        operation = Operation(case["operation"])
        expected = case["expected"]
        if operation in (Operation.RETAIN, Operation.REVISE_REPLICA):
            expected = gvk | expected
        found.append(Example(script, target, case["case"], operation, arguments, expected))
    return found


ALL = [example for script in TARGETS for example in examples_of(script)]


def outcome_of(example: Example) -> Any:
    result = INTERPRETER.interpret(example.operation, *example.arguments)
    if example.operation is Operation.REPLICA:
        return {"replicas": result[0], "requirements": result[1]}
    return result.get("status") if example.operation is Operation.AGGREGATE_STATUS else result


@pytest.mark.parametrize("example", ALL, ids=lambda example: f"{example.script}-{example.name.replace(' ', '-')}")
def test_example(example: Example) -> None:
    assert outcome_of(example) == example.expected


@pytest.mark.parametrize("script", TARGETS)
def test_every_operation_of_every_script_has_an_example(script: str) -> None:
    covered = {example.operation for example in examples_of(script)}
    assert covered == set(shipped_script(script).operations)


@pytest.mark.parametrize("script", TARGETS)
def test_health_has_examples_of_both_answers(script: str) -> None:
    if script in ("argocd_project", "kruise_advancedcronjob"):  # nothing in them can fail
        return
    answers = {one.expected for one in examples_of(script) if one.operation is Operation.HEALTH}
    assert answers == {True, False}


def test_shipped_customizations_are_valid_and_have_names_of_their_own() -> None:
    shipped = shipped_customizations()
    names = {one["metadata"]["name"] for one in shipped}
    assert len(names) == len(shipped) == sum(len(targets) for targets in TARGETS.values())
    for one in shipped:
        assert check_customization(one, None) == []
    assert [name for name in TARGETS if check_syntax(shipped_script(name).text) is not None] == []


@pytest.mark.parametrize("target", [target for targets in TARGETS.values() for target in targets], ids="/".join)
def test_object_without_a_spec_or_status_does_not_break_a_script(target: tuple[str, str]) -> None:
    """A kind may be newer than its rules, and a new object has no status."""
    bare = {"apiVersion": target[0], "kind": target[1], "metadata": {"name": "x", "namespace": "d"}, "spec": {}}
    for operation, arguments in (
        (Operation.REPLICA, [bare]),
        (Operation.COMPONENT, [bare]),
        (Operation.RETAIN, [bare, bare]),
        (Operation.STATUS, [bare]),
        (Operation.AGGREGATE_STATUS, [bare, [{"clusterName": "m1"}, {"clusterName": "m2", "status": {}}]]),
        (Operation.HEALTH, [bare]),
        (Operation.DEPENDENCY, [bare]),
    ):
        if INTERPRETER.interprets(target, operation):
            INTERPRETER.interpret(operation, *arguments)


@pytest.mark.parametrize(
    ("memory", "trimtab", "upstream"),
    [("100m", "100Mi", "100m"), ("2048m", "2Gi", "2048m"), ("1Gi", "1Gi", "1073741824")],
)
def test_memory_of_flink_is_a_quantity_only_in_profile_upstream(memory: str, trimtab: str, upstream: str) -> None:
    resource = {"resource": {"cpu": 1, "memory": memory}}
    spec = {"jobManager": resource, "taskManager": resource}
    flink = {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "spec": spec}
    for interpreter, read in ((INTERPRETER, trimtab), (Interpreter.of(profile="upstream"), upstream)):
        _, requirements = interpreter.replicas(flink)
        components = interpreter.components(flink) or []
        found = [requirements, *(one["replicaRequirements"] for one in components)]
        assert [one and one["resourceRequest"] for one in found] == [{"cpu": "1", "memory": read}] * 3


def test_customization_of_a_user_comes_before_the_shipped_one() -> None:
    target = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    own = customization(healthInterpretation="function InterpretHealth(o) return o.metadata.name == 'fine' end")
    own["spec"]["target"] = target
    rollout = {**target, "metadata": {"name": "fine", "generation": 2}, "spec": {"replicas": 3}}
    assert Interpreter.of([own]).health(rollout) == "Healthy"
    assert INTERPRETER.health(rollout) == "Unhealthy"
    assert Interpreter.of([own]).replicas(rollout)[0] == 3  # operations that the user does not define are not lost


def test_failing_script_says_whose_it_is() -> None:
    broken = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "spec": {"tasks": [{"template": "x", "name": 1}]},
    }
    interpreter = Interpreter.of(executor=lambda *a: run_script("function GetReplicas(o) error('no') end", *a[1:]))
    with pytest.raises(InterpreterError, match="InterpretReplica by the shipped rules job-v1alpha1-batch-volcano-sh"):
        interpreter.replicas(broken)


def test_native_kinds_have_no_shipped_script() -> None:
    groups = {api_version.partition("/")[0] for targets in TARGETS.values() for api_version, _ in targets}
    assert not groups & {"apps", "batch", "v1", "networking.k8s.io", "policy", "autoscaling"}
