"""Defaulting and validation of propagation policies."""

from typing import Any

import pytest

from api.admission.admission_helpers import errors_of, with_defaults
from trimtab.api.value import Raw

POLICIES = "propagationpolicies.policy.karmada.io"


def policy(**spec: Any) -> Raw:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]
    return {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"resourceSelectors": selectors, **spec}}


def test_selector_namespace_defaults_to_and_must_equal_the_policy_namespace() -> None:
    given = policy(resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}])
    assert with_defaults(POLICIES, given)["spec"]["resourceSelectors"][0]["namespace"] == "shop"
    elsewhere = policy(resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "other"}])
    assert errors_of(POLICIES, elsewhere)[0].startswith("spec.resourceSelectors[0].namespace: Invalid value")


def test_false_and_empty_fields_are_dropped_and_a_placement_is_added() -> None:
    given = policy(propagateDeps=False, dependentOverrides=[], preserveResourcesOnDeletion=False)
    assert with_defaults(POLICIES, given)["spec"].keys() - policy()["spec"].keys() == {
        "placement",
        "preserveResourcesOnDeletion",
    }
    spread = {"clusterAffinity": {"clusterNames": [], "exclude": ["m1"]}, "clusterTolerations": []}
    assert with_defaults(POLICIES, policy(placement=spread))["spec"]["placement"] == {
        "clusterAffinity": {"exclude": ["m1"]}
    }


def test_policy_without_missing_defaults_is_returned_unchanged() -> None:
    given = policy(placement={})
    assert with_defaults(POLICIES, given) is given


@pytest.mark.parametrize("mode", ["Gracefully", "Graciously"])
def test_graceful_failover_defaults_to_a_grace_period_of_600_seconds(mode: str) -> None:
    given = policy(failover={"application": {"decisionConditions": {}, "purgeMode": mode}})
    spec = with_defaults(POLICIES, given)["spec"]
    assert spec["failover"]["application"]["gracePeriodSeconds"] == 600
    assert spec["propagateDeps"] is True
    assert errors_of(POLICIES, with_defaults(POLICIES, given)) == []


def test_application_failover_requires_propagate_deps() -> None:
    given = policy(propagateDeps=False, failover={"application": {"decisionConditions": {}}})
    assert errors_of(POLICIES, with_defaults(POLICIES, given)) == [
        "spec.propagateDeps: Invalid value: false: application failover is set, propagateDeps must be true"
    ]


@pytest.mark.parametrize(
    ("application", "field"),
    [
        ({"decisionConditions": {"tolerationSeconds": -1}}, "decisionConditions.tolerationSeconds"),
        ({"decisionConditions": {"healthyState": ["Healthy"]}}, "decisionConditions.healthyState[0]"),
        ({"decisionConditions": {"healthyState": []}}, "decisionConditions.healthyState"),
        ({"purgeMode": "Directly", "gracePeriodSeconds": 5}, "gracePeriodSeconds"),
        ({"purgeMode": "Gracefully", "gracePeriodSeconds": 0}, "gracePeriodSeconds"),
        (
            {"statePreservation": {"rules": [{"aliasLabelName": "a b", "jsonPath": "{.x}"}]}},
            "statePreservation.rules[0].aliasLabelName",
        ),
    ],
)
def test_invalid_application_failover_is_rejected_with_the_field(application: Raw, field: str) -> None:
    (error,) = errors_of(POLICIES, policy(propagateDeps=True, failover={"application": application}))
    assert error.startswith(f"spec.failover.application.{field}: ")


def test_scheduler_name_and_permanent_id_are_immutable() -> None:
    old = policy(schedulerName="default-scheduler")
    old["metadata"]["labels"] = {"propagationpolicy.karmada.io/permanent-id": "1"}
    new = policy(schedulerName="other", placement={"spreadConstraints": [{"spreadByField": "region"}]})
    assert errors_of(POLICIES, new, old) == ["the schedulerName should not be updated"]
    assert errors_of(POLICIES, policy(schedulerName="default-scheduler"), old) == [
        "label propagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation"
    ]


def test_preemption_requires_selectors_with_names() -> None:
    given = policy(
        preemption="Always", resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop"}]
    )
    assert errors_of(POLICIES, given)[0].startswith("spec.resourceSelectors[0].name: Invalid value")


def test_suspension_of_all_and_of_some_clusters_are_exclusive() -> None:
    given = policy(suspension={"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["m1"]}})
    assert errors_of(POLICIES, given)[0].startswith("spec.suspension: Invalid value")
