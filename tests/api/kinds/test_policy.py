"""Propagation policies and placements."""

from api.kinds.kind_helpers import decode, reencode, schema_error_fields, with_schema_defaults
from trimtab.api.kind import kind_of
from trimtab.api.kinds.policy import ClusterPropagationPolicy, PropagationPolicy
from trimtab.api.value import Raw

SELECTORS = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]


def policy(**placement: object) -> Raw:
    return {"metadata": {"name": "p"}, "spec": {"resourceSelectors": SELECTORS, "placement": placement}}


def test_policy_gets_the_defaults_of_the_schema() -> None:
    spec = with_schema_defaults(PropagationPolicy, policy(replicaScheduling={}))["spec"]
    assert (spec["priority"], spec["preemption"], spec["conflictResolution"]) == (0, "Never", "Abort")
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["placement"]["replicaScheduling"] == {"replicaSchedulingType": "Divided"}


def test_at_least_one_selector_is_required() -> None:
    assert schema_error_fields(PropagationPolicy, {"spec": {"resourceSelectors": []}}) == ["spec.resourceSelectors"]


def test_score_hysteresis_keeps_the_field_for() -> None:
    raw = policy(scoreHysteresis={"margin": 5, "for": "1m"})
    hysteresis = decode(PropagationPolicy, raw).spec.placement.score_hysteresis
    assert hysteresis is not None
    assert (hysteresis.margin, hysteresis.for_) == (5, "1m")
    assert reencode(PropagationPolicy, raw)["spec"]["placement"] == raw["spec"]["placement"]


def test_weights_and_affinity_names_are_limited() -> None:
    weights = {"staticWeightList": [{"targetCluster": {}, "weight": 0}]}
    raw = policy(replicaScheduling={"weightPreference": weights}, clusterAffinities=[{"affinityName": "x" * 33}])
    assert sorted(schema_error_fields(PropagationPolicy, raw)) == [
        "spec.placement.clusterAffinities[0].affinityName",
        "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
    ]


def test_cluster_failover_cannot_keep_the_old_object() -> None:
    def errors(level: str) -> list[str]:
        behavior = {"purgeMode": "Never", **({"decisionConditions": {}} if level == "application" else {})}
        return schema_error_fields(
            PropagationPolicy, {"spec": {"resourceSelectors": SELECTORS, "failover": {level: behavior}}}
        )

    assert errors("application") == []
    assert errors("cluster") == ["spec.failover.cluster.purgeMode"]


def test_only_the_cluster_wide_policy_has_no_namespace() -> None:
    assert kind_of(PropagationPolicy).namespaced
    assert not kind_of(ClusterPropagationPolicy).namespaced
