"""Interpreter webhooks are asked by kind and operation, and their answers become results or failures."""

import base64
from typing import Any

import msgspec
import pytest

from trimtab.api.value import Raw
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import InterpreterError, InterpreterFailure, Operation
from trimtab.interpret.webhook_rules import WebhookQuestion, WebhookRules, parse_answer, request_of

OBJECT: Raw = {
    "apiVersion": "example.io/v1",
    "kind": "Workload",
    "metadata": {"name": "w", "namespace": "team"},
    "spec": {"replicas": 3, "paused": True},
}


def configuration(name: str = "examples", **hook: Any) -> Raw:
    rule = {"operations": ["*"], "apiGroups": ["example.io"], "apiVersions": ["v1"], "kinds": ["Workload"]}
    webhook = {
        "name": "workloads.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://example.com/interpret"},
        "interpreterContextVersions": ["v1alpha1"],
        **hook,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


class Answering:
    """Answers every question with the same response, and keeps the questions."""

    def __init__(self, response: Raw | InterpreterFailure) -> None:
        self.response = response
        self.questions: list[WebhookQuestion] = []

    def __call__(self, question: WebhookQuestion) -> Raw | InterpreterFailure:
        self.questions.append(question)
        return self.response


def interpreter(response: Raw | InterpreterFailure, *configurations: Raw) -> Interpreter:
    return Interpreter.of(webhook=WebhookRules(configurations or [configuration()], Answering(response)))


def patch_of(*operations: Raw) -> Raw:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


def test_each_operation_reads_its_own_field_of_the_response() -> None:
    assert interpreter({"replicas": 5, "replicaRequirements": {"namespace": "team"}}).replicas(OBJECT) == (
        5,
        {"namespace": "team"},
    )
    assert interpreter({"healthy": True}).health(OBJECT) == "Healthy"
    assert interpreter({"healthy": False}).health(OBJECT) == "Unhealthy"
    assert interpreter({"rawStatus": {"ready": 1}}).reflect(OBJECT) == {"ready": 1}
    assert interpreter({"components": [{"name": "main", "replicas": 2}]}).components(OBJECT) == [
        {"name": "main", "replicas": 2}
    ]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "team", "name": "c"}
    assert interpreter({"dependencies": [reference]}).dependencies(OBJECT) == [reference]


def test_patches_change_a_copy_of_the_object() -> None:
    response = patch_of({"op": "replace", "path": "/spec/replicas", "value": 7})
    revised = interpreter(response).revise(OBJECT, 7)
    assert (revised["spec"]["replicas"], OBJECT["spec"]["replicas"]) == (7, 3)
    assert interpreter({}).retain(OBJECT, OBJECT) == OBJECT


@pytest.mark.parametrize(
    ("response", "operation"),
    [
        ({}, Operation.REPLICA),
        ({}, Operation.HEALTH),
        ({}, Operation.STATUS),
        ({"dependencies": [{"kind": "ConfigMap", "name": "c"}]}, Operation.DEPENDENCY),
        ({"dependencies": [{"apiVersion": "v1", "kind": "ConfigMap"}]}, Operation.DEPENDENCY),
        ({"patch": "e30=", "patchType": "Merge"}, Operation.RETAIN),
        ({"patch": "%", "patchType": "JSONPatch"}, Operation.RETAIN),
        (patch_of({"op": "remove", "path": "/spec/none/none"}), Operation.RETAIN),
        (InterpreterFailure("WebhookUnavailable", "refused"), Operation.HEALTH),
    ],
)
def test_incomplete_and_failed_answers_are_failures_of_the_webhook(
    response: Raw | InterpreterFailure, operation: Operation
) -> None:
    with pytest.raises(InterpreterError, match=r"by webhook examples/workloads\.example\.com/0"):
        interpreter(response).interpret(operation, OBJECT, OBJECT)


def test_webhook_is_asked_only_for_its_kinds_operations_and_versions() -> None:
    one = {"operations": ["InterpretHealth"], "apiGroups": ["*"], "apiVersions": ["v1"], "kinds": ["*"]}
    rules = WebhookRules([configuration(rules=[one])], Answering({}))
    assert rules.interprets(("example.io/v1", "Workload"), Operation.HEALTH)
    assert rules.interprets(("v1", "Pod"), Operation.HEALTH)
    assert not rules.interprets(("example.io/v1", "Workload"), Operation.REPLICA)
    assert not rules.interprets(("example.io/v2", "Workload"), Operation.HEALTH)
    old = WebhookRules([configuration(interpreterContextVersions=["v2"])], Answering({}))
    assert not old.interprets(("example.io/v1", "Workload"), Operation.HEALTH)


def test_first_webhook_by_name_is_asked() -> None:
    answering = Answering({"healthy": True})
    rules = WebhookRules([configuration("b"), configuration("a")], answering)
    rules.interpret(("example.io/v1", "Workload"), Operation.HEALTH, [OBJECT])
    assert [question.configuration for question in answering.questions] == ["a/workloads.example.com/0"]
    assert rules.generation(("example.io/v1", "Workload"), Operation.HEALTH)
    assert rules.generation(("v1", "Pod"), Operation.HEALTH) == ""


def test_requests_carry_what_the_operation_needs() -> None:
    request = request_of(Operation.RETAIN, [OBJECT, {"observed": True}])
    assert request["kind"] == {"group": "example.io", "version": "v1", "kind": "Workload"}
    assert (request["name"], request["namespace"], request["operation"]) == ("w", "team", "Retain")
    assert request["observedObject"] == {"observed": True}
    assert request_of(Operation.REVISE_REPLICA, [OBJECT, 4])["replicas"] == 4
    assert request_of(Operation.AGGREGATE_STATUS, [OBJECT, [{"clusterName": "a"}]])["aggregatedStatus"] == [
        {"clusterName": "a"}
    ]
    core = request_of(Operation.HEALTH, [{"apiVersion": "v1", "kind": "Pod", "metadata": {}}])
    assert core["kind"] == {"group": "", "version": "v1", "kind": "Pod"}


def question() -> WebhookQuestion:
    return WebhookQuestion(
        "examples/w/0", {"url": "https://x"}, 3, "Retain", request_of(Operation.RETAIN, [OBJECT, OBJECT])
    )


def test_equal_questions_have_equal_uids() -> None:
    assert question().uid == question().uid
    assert len(question().uid) == 36
    assert question()._replace(client_config={"url": "https://y"}).uid != question().uid
    body = msgspec.json.decode(question().body)
    assert body["kind"] == "ResourceInterpreterContext"
    assert body["request"]["uid"] == question().uid


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "invalid webhook response"),
        (b"{}", "absent"),
        (b'{"response": {"uid": "other", "successful": true}}', "expected response.uid"),
        (b'{"response": {"uid": "u", "successful": false, "status": {"code": 400, "message": "no"}}}', "400, msg: no"),
    ],
)
def test_answers_that_are_none_are_failures(body: bytes, words: str) -> None:
    failure = parse_answer(body, "u")
    assert isinstance(failure, InterpreterFailure)
    assert words in failure.message


def test_answer_for_the_uid_is_taken() -> None:
    assert parse_answer(b'{"response": {"uid": "u", "successful": true, "healthy": true}}', "u") == {
        "uid": "u",
        "successful": True,
        "healthy": True,
    }
