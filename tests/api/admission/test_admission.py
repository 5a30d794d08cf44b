"""What webhooks of upstream fill in and refuse, told kind by kind."""

from typing import Any

import pytest

from trimtab.api import kinds as declarations
from trimtab.api.kind import kinds
from trimtab.api.value import Raw
from trimtab.registry import discover

discover(declarations)


def filled(kind_id: str, raw: Raw) -> Raw:
    kind = kinds[kind_id]
    for default in (*kind.defaults, *kind.admission_defaults):
        raw = default(raw)
    return raw


def refused(kind_id: str, raw: Raw, old: Raw | None = None) -> list[str]:
    kind = kinds[kind_id]
    checks = (*kind.validators, *kind.admission_validators)
    return [
        f"{cause.field}: {cause.message}" if cause.field else cause.message
        for check in checks
        for cause in check(raw, old)
    ]


POLICIES = "propagationpolicies.policy.karmada.io"
CLUSTERS = "clusters.cluster.karmada.io"


def policy(**spec: Any) -> Raw:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]
    return {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"resourceSelectors": selectors, **spec}}


def cluster(**spec: Any) -> Raw:
    return {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", **spec}}


def test_selectors_mean_the_namespace_of_their_policy() -> None:
    given = policy(resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}])
    assert filled(POLICIES, given)["spec"]["resourceSelectors"][0]["namespace"] == "shop"
    elsewhere = policy(resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "other"}])
    assert refused(POLICIES, elsewhere)[0].startswith("spec.resourceSelectors[0].namespace: Invalid value")


def test_a_policy_is_written_back_without_words_that_say_nothing_but_with_a_placement() -> None:
    given = policy(propagateDeps=False, dependentOverrides=[], preserveResourcesOnDeletion=False)
    assert filled(POLICIES, given)["spec"].keys() - policy()["spec"].keys() == {
        "placement",
        "preserveResourcesOnDeletion",
    }
    spread = {"clusterAffinity": {"clusterNames": [], "exclude": ["m1"]}, "clusterTolerations": []}
    assert filled(POLICIES, policy(placement=spread))["spec"]["placement"] == {"clusterAffinity": {"exclude": ["m1"]}}


def test_a_policy_with_nothing_to_fill_in_is_handed_back_itself() -> None:
    given = policy(placement={})
    assert filled(POLICIES, given) is given


@pytest.mark.parametrize("mode", ["Gracefully", "Graciously"])
def test_a_graceful_failover_waits_ten_minutes_unless_told_otherwise(mode: str) -> None:
    given = policy(failover={"application": {"decisionConditions": {}, "purgeMode": mode}})
    spec = filled(POLICIES, given)["spec"]
    assert spec["failover"]["application"]["gracePeriodSeconds"] == 600
    assert spec["propagateDeps"] is True
    assert refused(POLICIES, filled(POLICIES, given)) == []


def test_application_failover_without_dependencies_is_refused() -> None:
    given = policy(propagateDeps=False, failover={"application": {"decisionConditions": {}}})
    assert refused(POLICIES, filled(POLICIES, given)) == [
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
def test_mistakes_in_application_failover_are_told(application: Raw, field: str) -> None:
    (complaint,) = refused(POLICIES, policy(propagateDeps=True, failover={"application": application}))
    assert complaint.startswith(f"spec.failover.application.{field}: ")


def test_a_policy_keeps_its_scheduler_and_its_identity() -> None:
    old = policy(schedulerName="default-scheduler")
    old["metadata"]["labels"] = {"propagationpolicy.karmada.io/permanent-id": "1"}
    new = policy(schedulerName="other", placement={"spreadConstraints": [{"spreadByField": "region"}]})
    assert refused(POLICIES, new, old) == ["the schedulerName should not be updated"]
    assert refused(POLICIES, policy(schedulerName="default-scheduler"), old) == [
        "label propagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation"
    ]


def test_a_policy_that_takes_over_must_name_its_objects() -> None:
    given = policy(
        preemption="Always", resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop"}]
    )
    assert refused(POLICIES, given)[0].startswith("spec.resourceSelectors[0].name: Invalid value")


def test_dispatching_is_stopped_everywhere_or_somewhere() -> None:
    given = policy(suspension={"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["m1"]}})
    assert refused(POLICIES, given)[0].startswith("spec.suspension: Invalid value")


def test_a_complaint_quotes_what_it_is_about_in_the_order_of_its_declaration() -> None:
    (complaint,) = refused(
        POLICIES,
        policy(placement={"spreadConstraints": [{"minGroups": 3, "maxGroups": 2, "spreadByField": "cluster"}]}),
    )
    assert complaint == (
        'spec.placement.spreadConstraints[0]: Invalid value: {"spreadByField":"cluster","maxGroups":2,"minGroups":3}: '
        "maxGroups lower than minGroups is not allowed"
    )


def test_overrides_are_checked_rule_by_rule() -> None:
    def override(**overriders: Any) -> list[str]:
        rules = [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": overriders}]
        return refused("clusteroverridepolicies.policy.karmada.io", {"spec": {"overrideRules": rules}})

    assert override(plaintext=[{"path": "/spec", "operator": "remove"}]) == []
    assert override(labelsOverrider=[{"operator": "add", "value": {"a b": "c"}}])[0].startswith(
        "spec.overrideRules[0].overriders.labelsOverrider[0].value: Invalid value"
    )
    both = [{"fieldPath": "/data/a", "json": [{"subPath": "/x", "operator": "add"}], "yaml": [{"subPath": "/x"}]}]
    assert len(override(fieldOverrider=both)) == 3
    assert override(imageOverrider=[{"predicate": {"path": "spec"}, "component": "Tag", "operator": "add"}]) != []


def test_old_and_new_way_of_overriding_do_not_mix() -> None:
    plain = [{"path": "/a", "operator": "remove"}]
    spec = {"overrideRules": [], "targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": plain}}
    said = refused("clusteroverridepolicies.policy.karmada.io", {"spec": spec})
    assert [(text.partition(":")[0], text.rpartition(": ")[2]) for text in said] == [
        ("spec.targetCluster", "overrideRules and targetCluster can't co-exist"),
        ("spec.overriders", "overrideRules and overriders can't co-exist"),
    ]


def test_an_embedded_document_is_patched_as_json_or_as_yaml_with_values_where_they_belong() -> None:
    steps = [{"subPath": "/a", "operator": "add"}]
    given = {"fieldPath": "/data/x", "json": steps, "yaml": [{"subPath": "/a", "operator": "remove", "value": 1}]}
    spec = {"overrideRules": [{"overriders": {"fieldOverrider": [given]}}]}
    said = refused("clusteroverridepolicies.policy.karmada.io", {"spec": spec})
    where = "spec.overrideRules[0].overriders.fieldOverrider[0]"
    assert said[0].endswith("FieldOverrider has both YAML and JSON set. Only one is allowed")
    assert said[1:] == [
        f"{where}.json[0].value: Invalid value: null: value is required for add or replace operation",
        f"{where}.yaml[0].value: Invalid value: 1: value is not allowed for remove operation",
    ]


def test_numbers_below_zero_are_refused_in_the_words_of_the_webhook() -> None:
    spread = [{"spreadByField": "cluster", "minGroups": -1, "maxGroups": -2}]
    said = refused(POLICIES, policy(placement={"spreadConstraints": spread}))
    assert [text.rpartition(": ")[2] for text in said] == [
        "minGroups lower than 0 is not allowed",
        "maxGroups lower than 0 is not allowed",
    ]


def test_a_cluster_gets_the_usual_classes_of_nodes_and_its_zone_moves() -> None:
    spec = filled(CLUSTERS, cluster(zone="z1"))["spec"]
    assert spec["zones"] == ["z1"]
    assert "zone" not in spec
    assert [model["grade"] for model in spec["resourceModels"]] == list(range(9))
    assert refused(CLUSTERS, filled(CLUSTERS, cluster())) == []


def test_classes_of_nodes_are_sorted_and_open_at_both_ends() -> None:
    models = [
        {"grade": 2, "ranges": [{"name": "cpu", "min": "2", "max": "4"}]},
        {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]},
    ]
    first, last = filled(CLUSTERS, cluster(resourceModels=models))["spec"]["resourceModels"]
    assert (first["grade"], first["ranges"][0]["min"]) == (1, "0")
    assert (last["grade"], last["ranges"][0]["max"]) == (2, "9223372036854775807")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"syncMode": "Both"}, "spec.syncMode"),
        ({"apiEndpoint": "https://user@host"}, "spec.apiEndpoint"),
        ({"apiEndpoint": "nowhere"}, "spec.apiEndpoint"),
        ({"secretRef": {"name": "a"}}, "spec.secretRef.namespace"),
        ({"proxyURL": "ftp://x"}, "spec.proxyURL"),
        ({"region": "a b"}, "spec.region"),
        ({"zone": "a", "zones": ["b"]}, "spec.zones"),
        ({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, "spec.taints[0].effect"),
        ({"taints": [{"key": "a", "effect": "NoExecute"}] * 2}, "spec.taints[1]"),
    ],
)
def test_mistakes_in_a_cluster_are_told(spec: Raw, field: str) -> None:
    (complaint,) = refused(CLUSTERS, cluster(**spec))
    assert complaint.startswith(f"{field}: ")


def test_a_cluster_name_is_a_short_label() -> None:
    raw = cluster()
    raw["metadata"]["name"] = "x" * 49
    assert refused(CLUSTERS, raw)[0].endswith("must be no more than 48 characters")


def test_a_quota_covers_what_it_gives_away() -> None:
    spec = {
        "overall": {"cpu": "2"},
        "staticAssignments": [{"clusterName": "m1", "hard": {"cpu": "1500m", "memory": "1Gi"}}] * 2,
    }
    complaints = refused("federatedresourcequotas.policy.karmada.io", {"metadata": {"name": "q"}, "spec": spec})
    assert len(complaints) == 3
    assert complaints[-1].startswith("spec.overall.cpu: ")


def test_a_rebalancer_names_workloads_or_selects_them() -> None:
    kind = "workloadrebalancers.apps.karmada.io"
    assert refused(kind, {"spec": {}}) == ["spec.workloads: Required value"]
    assert refused(kind, {"spec": {"workloads": []}})[0].endswith("should have at least 1 items")
    assert refused(kind, {"spec": {"selectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}}) == []
    other_words = {"spec": {"workloads": [], "reschedule": {"preserveAvailableReplicas": True}}}
    assert filled(kind, other_words)["spec"]["strategy"] == "PreserveAvailable"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]},
            "workloads[0].namespace: Req",
        ),
        (
            {"workloads": [{"apiVersion": "v1", "kind": "Node", "name": "n", "namespace": "x"}]},
            "workloads[0].namespace: Inv",
        ),
        ({"workloads": [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "n"}]}, ""),
        ({"selectors": [{"apiVersion": "apps/v1", "kind": ""}]}, "selectors[0].kind: Inv"),
        (
            {
                "selectors": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]},
                    }
                ]
            },
            "selectors[0].labelSelector.matchExpressions[0].operator: Inv",
        ),
        (
            {"selectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "move": {"maxSurge": "x%"}},
            "move.maxSurge: Inv",
        ),
    ],
)
def test_a_rebalancer_means_what_can_be_found(spec: Raw, complaint: str) -> None:
    told = refused("workloadrebalancers.apps.karmada.io", {"spec": spec})
    assert [text.startswith(f"spec.{complaint}") for text in told] == [True] * bool(complaint)


def test_the_schedule_of_a_rebalancer_can_be_read_and_has_no_end() -> None:
    def told(**spec: Any) -> list[str]:
        everything = {"selectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], **spec}
        return refused("workloadrebalancers.apps.karmada.io", {"spec": everything})

    assert told(schedule="0 3 * * *", timeZone="Europe/Berlin") == []
    assert told(schedule="at night")[0].startswith("spec.schedule: Invalid value")
    assert told(schedule="0 3 * * *", timeZone="Mars/Olympus")[0].startswith("spec.timeZone: Invalid value")
    assert told(schedule="0 3 * * *", ttlSecondsAfterFinished=0)[0].startswith(
        "spec.ttlSecondsAfterFinished: Forbidden"
    )
    assert told(timeZone="Europe/Berlin") == ["spec.timeZone: Forbidden: only a schedule has a time zone"]


def test_a_cron_scaler_is_held_to_what_it_scales() -> None:
    def cron(kind: str, **rule: Any) -> list[str]:
        spec = {
            "scaleTargetRef": {"kind": kind, "name": "x"},
            "rules": [{"name": "a", "schedule": "0 8 * * *", **rule}],
        }
        return refused("cronfederatedhpas.autoscaling.karmada.io", {"spec": spec})

    assert cron("Deployment", targetReplicas=1) == []
    assert len(cron("Deployment")) == 1
    assert len(cron("FederatedHPA", targetMinReplicas=3, targetMaxReplicas=2)) == 1
    assert len(cron("Deployment", targetReplicas=1, schedule="daily", timeZone="Nowhere/Land")) == 2


def test_a_set_binding_is_called_as_its_set() -> None:
    kind = "managedclustersetbindings.cluster.open-cluster-management.io"
    assert refused(kind, {"metadata": {"name": "a"}, "spec": {"clusterSet": "a"}}) == []
    assert refused(kind, {"metadata": {"name": "a"}, "spec": {"clusterSet": "b"}}) != []


def test_a_managed_cluster_belongs_to_the_default_set_until_told_otherwise() -> None:
    kind = "managedclusters.cluster.open-cluster-management.io"
    label = "cluster.open-cluster-management.io/clusterset"
    assert filled(kind, {"metadata": {"name": "a"}})["metadata"]["labels"] == {label: "default"}
    chosen = {"metadata": {"name": "a", "labels": {label: "mine"}}}
    assert filled(kind, chosen) is chosen


def test_a_budget_says_one_thing_and_says_it_right() -> None:
    def budget(**spec: Any) -> list[str]:
        return refused("disruptionbudgets.trimtab.dev", {"spec": spec})

    assert budget(minAvailable="50%") == []
    assert budget(minAvailable=1, maxUnavailable=1) != []
    assert budget(minAvailable="half") != []
    assert budget(maxUnavailable="120%") != []
    assert budget(rate={"disruptions": 1, "period": "0s"}) != []
    assert budget(rate={"disruptions": 1, "period": "1h30m"}) == []
    assert budget(windows=[{"schedule": "noon", "duration": "1h"}]) != []
    assert budget(windows=[{"schedule": "0 2 * * *", "duration": "1h", "timeZone": "Europe/Berlin"}]) == []
    assert len(budget(windows=[{"schedule": "0 99 * * *", "duration": "1h", "timeZone": "Mars/North"}])) == 2
    assert len(budget(windows=[{"schedule": "0 2 * * *", "duration": "1h", "timeZone": "Europe"}])) == 1
    assert len(budget(selector={"matchExpressions": [{"key": "a", "operator": "In"}]})) == 1


def test_on_the_api_of_a_fleet_a_budget_is_over_workloads_unless_it_says_otherwise() -> None:
    for given, target in (({}, "Workloads"), ({"target": "Pods"}, "Pods")):
        assert filled("disruptionbudgets.trimtab.dev", {"spec": given})["spec"]["target"] == target


def test_there_is_one_disruption_policy() -> None:
    assert refused("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}}) == []
    assert refused("disruptionpolicies.trimtab.dev", {"metadata": {"name": "mine"}}) != []
    odd = {"storm": {"slowAbove": "many", "stopAbove": "60%"}, "evictionRate": {"perSecond": "fast"}}
    assert len(refused("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}, "spec": odd})) == 2
    fine = {"storm": {"slowAbove": 2, "stopAbove": "60%"}, "evictionRate": {"perSecond": "0.1"}}
    assert refused("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}, "spec": fine}) == []


def test_an_interpreter_webhook_is_reachable_and_named_in_full() -> None:
    kind = "resourceinterpreterwebhookconfigurations.config.karmada.io"
    hook = {
        "name": "a.b.c",
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "interpreterContextVersions": ["v1alpha1"],
        "rules": [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"]}],
    }
    ready = filled(kind, {"webhooks": [hook]})
    assert ready["webhooks"][0]["timeoutSeconds"] == 10
    assert ready["webhooks"][0]["clientConfig"]["service"]["port"] == 443
    assert refused(kind, ready) == []
    assert len(refused(kind, {"webhooks": [{**hook, "name": "short", "clientConfig": {}, "timeoutSeconds": 31}]})) == 3


def test_a_service_over_clusters_has_one_type_for_good() -> None:
    kind = "multiclusterservices.networking.karmada.io"
    old = {"metadata": {"name": "web"}, "spec": {"types": ["CrossCluster"]}}
    new = {"metadata": {"name": "web"}, "spec": {"types": ["LoadBalancer"]}}
    assert refused(kind, old) == []
    assert refused(kind, new, old) != []


def test_a_taint_policy_does_not_evict() -> None:
    spec = {"taints": [{"key": "a", "effect": "NoExecute"}]}
    assert refused("clustertaintpolicies.policy.karmada.io", {"spec": spec})[0].startswith(
        "spec.taints[0].effect: Forbidden"
    )


def test_a_binding_lists_its_dependencies_as_json() -> None:
    kind = "resourcebindings.work.karmada.io"
    annotated = {"metadata": {"annotations": {"resourcebinding.karmada.io/dependencies": "{}"}}, "spec": {}}
    assert len(refused(kind, annotated)) == 1
    assert refused(kind, {"spec": {"components": [{"name": "a"}, {"name": "a"}]}}) != []


def test_a_disruption_policy_is_checked_part_by_part() -> None:
    def policy(**spec: Any) -> list[str]:
        return refused("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}, "spec": spec})

    hourly = {"disruptions": 1, "period": "1h"}
    assert policy(floors=[{"minMaxUnavailable": "10%", "minRate": hourly}], componentQuotas=[{"rate": hourly}]) == []
    (said,) = policy(defaultBudgets=[{"maxUnavailable": "10%"}, {"maxUnavailable": "ten"}])
    assert said.startswith("spec.defaultBudgets[1].maxUnavailable: ")
    (said,) = policy(componentQuotas=[{"rate": {"disruptions": 1, "period": "0h"}}])
    assert said.startswith("spec.componentQuotas[0].rate.period: ")
    (said,) = policy(floors=[{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}])
    assert said.startswith("spec.floors[0].namespaceSelector.matchExpressions[0].operator: ")
