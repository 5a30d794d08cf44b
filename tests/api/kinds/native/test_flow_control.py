from api.kinds.kind_helpers import decode
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.flow_control import FlowSchema, PriorityLevelConfiguration


def test_flow_schema_keeps_rules_and_subjects() -> None:
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "*"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
    }
    raw = {"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "p"}, "rules": [rule]}}
    schema = decode(FlowSchema, raw)
    assert schema.spec.matching_precedence == 1000
    subject = schema.spec.rules[0].subjects[0].service_account
    assert subject is not None
    assert (subject.namespace, subject.name) == ("n", "*")
    assert schema.spec.rules[0].non_resource_rules[0].non_resource_urls == ("/healthz",)


def test_priority_level_keeps_its_queues() -> None:
    limits = {"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 3}}}
    level = decode(PriorityLevelConfiguration, {"metadata": {"name": "p"}, "spec": {"limited": limits}})
    assert level.spec.limited is not None
    assert level.spec.limited.limit_response.queuing is not None
    assert level.spec.limited.limit_response.queuing.hand_size == 2
    assert level.spec.limited.nominal_concurrency_shares == 30


def test_both_kinds_are_cluster_scoped() -> None:
    assert not kind_of(FlowSchema).namespaced
    assert not kind_of(PriorityLevelConfiguration).namespaced
