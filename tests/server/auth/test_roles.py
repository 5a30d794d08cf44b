"""Aggregation of ClusterRoles."""

from server.rbac_objects import cluster_role, rule
from trimtab.server.auth.roles import aggregates_of, resulting_rules

ROLES = {
    obj["metadata"]["name"]: obj
    for obj in (
        cluster_role("leaf", rule("get", "pods"), labels={"to": "middle"}),
        cluster_role("middle", rule("list", "pods"), labels={"to": "top"}, selects={"to": "middle"}),
        cluster_role("top", labels={"to": "top"}, selects={"to": "top"}),
        cluster_role("other", rule("get", "secrets")),
    )
}


def test_rules_of_an_aggregate_include_those_of_the_aggregates_it_selects() -> None:
    assert [found["verbs"] for found in resulting_rules("top", ROLES)] == [["list"], ["get"]]
    assert [found["verbs"] for found in resulting_rules("middle", ROLES)] == [["list"], ["get"]]
    assert resulting_rules("leaf", ROLES) == [rule("get", "pods")]
    assert resulting_rules("absent", ROLES) == []


def test_aggregates_of_a_role_are_found_through_other_aggregates() -> None:
    assert aggregates_of("leaf", ROLES) == ["middle", "top"]
    assert aggregates_of("top", ROLES) == []
    assert aggregates_of("other", ROLES) == []


def test_selector_with_an_unknown_operator_selects_nothing() -> None:
    odd = {"matchExpressions": [{"key": "to", "operator": "Sometimes"}]}
    roles = {**ROLES, "top": {**ROLES["top"], "aggregationRule": {"clusterRoleSelectors": [odd]}}}
    assert resulting_rules("top", roles) == []
