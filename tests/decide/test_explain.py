from datetime import timedelta
from typing import Any

from plugins.clusters import GROUPS, PREFERENCE, fleet, fleet_with_pods, fleet_with_scores, member, placement_request
from trimtab.clock import EPOCH
from trimtab.decide.explain import decision_record, explain
from trimtab.decide.fleet import ExternalValue
from trimtab.decide.karmada import decide
from trimtab.plugins import load

load()
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}


def explanation_of(name: str, explanation: Any) -> Any:
    return next(story for story in explanation.clusters if story.name == name)


def test_each_rejected_cluster_names_the_filter_and_the_reason() -> None:
    tainted = member("m2", taints=[{"key": "k", "effect": "NoSchedule"}])
    explanation = explain(decide(placement_request(placement={}), fleet(member("m1"), tainted)))
    refused = explanation_of("m2", explanation).refused
    assert (refused.plugin, refused.code) == ("TaintToleration", "UntoleratedTaint")
    assert refused.message == "cluster(s) had untolerated taint {k:NoSchedule}"
    assert explanation_of("m1", explanation).refused is None


def test_a_cluster_that_gets_no_more_replicas_says_why() -> None:
    tainted = member("m1", 9, taints=[{"key": "k", "effect": "NoSchedule"}])
    request = placement_request(
        placement={"replicaScheduling": AGGREGATED}, replicas=4, clusters=[{"name": "m1", "replicas": 1}]
    )
    explanation = explain(decide(request, fleet(tainted, member("m2", 9))))
    limited, other = explanation_of("m1", explanation), explanation_of("m2", explanation)
    assert (limited.refused, limited.replicas, limited.fits) == (None, 1, 0)
    assert (limited.limited.plugin, limited.limited.code) == ("TaintToleration", "UntoleratedTaint")
    assert (other.limited, other.replicas) == (None, 3)


def test_each_feasible_cluster_has_its_score_capacity_and_share() -> None:
    request = placement_request(
        placement={"replicaScheduling": AGGREGATED}, replicas=4, clusters=[{"name": "m2", "replicas": 1}]
    )
    explanation = explain(decide(request, fleet_with_pods(9, 9)))
    used, unused = explanation_of("m2", explanation), explanation_of("m1", explanation)
    assert (used.scores, used.fits, used.before, used.replicas) == ({"ClusterLocality": 100}, 9, 1, 4)
    assert (unused.scores, unused.replicas) == ({"ClusterLocality": 0}, None)
    assert explanation.tie_break.startswith("the first name wins")


def test_tried_groups_say_why_they_were_not_selected() -> None:
    explanation = explain(decide(placement_request(placement={"clusterAffinities": GROUPS}), fleet(member("m2"))))
    assert [group.name for group in explanation.groups] == ["own", "cloud"]
    assert explanation.groups[0].message.startswith("0/1 clusters are available")
    assert explanation.groups[1].message == ""


def test_prioritizer_scores_are_explained() -> None:
    explanation = explain(
        decide(placement_request(placement={"prioritizerPolicy": PREFERENCE}), fleet_with_scores(10, 20))
    )
    assert explanation_of("m2", explanation).prioritizers == {"AddOn/carbon/green": 20}
    assert explanation_of("m2", explanation).total == 20


def test_explanation_says_when_the_decision_was_made() -> None:
    assert explain(decide(placement_request(), fleet_with_pods(1))).decided_at == EPOCH


def test_a_decision_is_valid_until_a_block_ends_or_a_score_expires() -> None:
    left = [{"clusterName": "m2", "creationTimestamp": "2030-01-01T00:00:00Z"}]
    blocked = placement_request(activeEvictionHistory=left, failover={"application": {"blockPredecessorSeconds": 90}})
    assert explain(decide(blocked, fleet_with_pods(1, 1))).valid_until == EPOCH + timedelta(seconds=90)
    scores = {"m1": ExternalValue({"green": 1}, until=EPOCH + timedelta(seconds=30))}
    all_clusters = fleet_with_pods(1, 1).with_external_values("AddOnPlacementScore/carbon", scores)
    preferring = placement_request(placement={"prioritizerPolicy": PREFERENCE})
    assert explain(decide(preferring, all_clusters)).valid_until == EPOCH + timedelta(seconds=30)
    assert explain(decide(placement_request(), fleet_with_pods(1))).valid_until is None


def test_the_explanation_uses_the_fleet_of_the_decision() -> None:
    all_clusters = fleet_with_pods(9, 9)
    decision = decide(placement_request(placement={"replicaScheduling": AGGREGATED}, replicas=4), all_clusters)
    decide(placement_request(), all_clusters.change([member("m1", 0)]))
    assert explanation_of("m1", explain(decision)).fits == 9


def test_a_record_groups_rejected_clusters_by_first_filter_and_names_only_a_few() -> None:
    tainted = [member(f"t{n}", taints=[{"key": "k", "effect": "NoSchedule"}]) for n in range(7)]
    outside = {"clusterAffinity": {"clusterNames": ["m1", *(f"t{n}" for n in range(7))]}}
    kept = decision_record(
        decide(placement_request(placement=outside), fleet(member("m1"), member("m2"), *tainted)), EPOCH
    )
    assert (kept.total_clusters, kept.feasible_clusters, kept.mode) == (9, 1, "Steady")
    assert [(group.filter, group.count, len(group.clusters)) for group in kept.rejected] == [
        ("ClusterAffinity", 1, 1),
        ("TaintToleration", 7, 5),
    ]
    assert kept.rejected[1].message == "cluster(s) had untolerated taint {k:NoSchedule}"


def test_a_record_has_the_same_rejections_as_the_explanation() -> None:
    all_clusters = fleet(member("m1"), member("m2", taints=[{"key": "k", "effect": "NoSchedule"}]), member("m3"))
    placed = placement_request(placement={"clusterAffinity": {"clusterNames": ["m1", "m2"]}}, clusters=[{"name": "m2"}])
    decision = decide(placed, all_clusters)
    rejected = {explanation.name for explanation in explain(decision).clusters if explanation.refused is not None}
    assert (
        {name for group in decision_record(decision, EPOCH).rejected for name in group.clusters} == rejected == {"m3"}
    )
