from datetime import timedelta
from typing import Any

from plugins.clusters import GROUPS, PREFERENCE, ask, fleet, member, scored, three
from trimtab.clock import EPOCH
from trimtab.decide.explain import explain, record
from trimtab.decide.fleet import Note
from trimtab.decide.karmada import decide
from trimtab.plugins import load

load()
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}


def story_of(name: str, explanation: Any) -> Any:
    return next(story for story in explanation.clusters if story.name == name)


def test_each_refused_cluster_tells_which_filter_refused_it_and_why() -> None:
    tainted = member("m2", taints=[{"key": "k", "effect": "NoSchedule"}])
    explanation = explain(decide(ask(placement={}), fleet(member("m1"), tainted)))
    refused = story_of("m2", explanation).refused
    assert (refused.plugin, refused.code) == ("TaintToleration", "UntoleratedTaint")
    assert refused.message == "cluster(s) had untolerated taint {k:NoSchedule}"
    assert story_of("m1", explanation).refused is None


def test_each_feasible_cluster_tells_its_score_its_room_and_its_share() -> None:
    asked = ask(placement={"replicaScheduling": AGGREGATED}, replicas=4, clusters=[{"name": "m2", "replicas": 1}])
    explanation = explain(decide(asked, three(9, 9)))
    used, unused = story_of("m2", explanation), story_of("m1", explanation)
    assert (used.scores, used.room, used.before, used.replicas) == ({"ClusterLocality": 100}, 9, 1, 4)
    assert (unused.scores, unused.replicas) == ({"ClusterLocality": 0}, None)
    assert explanation.tie_break.startswith("equal claims are served first name first")


def test_the_groups_that_were_tried_tell_why_they_were_not_taken() -> None:
    explanation = explain(decide(ask(placement={"clusterAffinities": GROUPS}), fleet(member("m2"))))
    assert [group.name for group in explanation.groups] == ["own", "cloud"]
    assert explanation.groups[0].message.startswith("0/1 clusters are available")
    assert explanation.groups[1].message == ""


def test_prioritizers_tell_their_marks() -> None:
    explanation = explain(decide(ask(placement={"prioritizerPolicy": PREFERENCE}), scored(10, 20)))
    assert story_of("m2", explanation).prioritizers == {"AddOn/carbon/green": 20}
    assert story_of("m2", explanation).total == 20


def test_a_decision_is_valid_until_a_block_ends_or_a_score_expires() -> None:
    left = [{"clusterName": "m2", "creationTimestamp": "2030-01-01T00:00:00Z"}]
    blocked = ask(activeEvictionHistory=left, failover={"application": {"blockPredecessorSeconds": 90}})
    assert explain(decide(blocked, three(1, 1))).valid_until == EPOCH + timedelta(seconds=90)
    sheet = {"m1": Note({"green": 1}, until=EPOCH + timedelta(seconds=30))}
    picture = three(1, 1).note("AddOnPlacementScore/carbon", sheet)
    preferring = ask(placement={"prioritizerPolicy": PREFERENCE})
    assert explain(decide(preferring, picture)).valid_until == EPOCH + timedelta(seconds=30)
    assert explain(decide(ask(), three(1))).valid_until is None


def test_the_story_is_of_the_picture_that_was_decided_on() -> None:
    picture = three(9, 9)
    decision = decide(ask(placement={"replicaScheduling": AGGREGATED}, replicas=4), picture)
    decide(ask(), picture.change([member("m1", 0)]))
    assert story_of("m1", explain(decision)).room == 9


def test_a_record_groups_the_refused_by_the_rule_that_objected_first_and_names_only_a_few() -> None:
    tainted = [member(f"t{n}", taints=[{"key": "k", "effect": "NoSchedule"}]) for n in range(7)]
    outside = {"clusterAffinity": {"clusterNames": ["m1", *(f"t{n}" for n in range(7))]}}
    kept = record(decide(ask(placement=outside), fleet(member("m1"), member("m2"), *tainted)), EPOCH)
    assert (kept.considered, kept.feasible, kept.mode) == (9, 1, "Steady")
    assert [(group.rule, group.count, len(group.clusters)) for group in kept.refused] == [
        ("ClusterAffinity", 1, 1),
        ("TaintToleration", 7, 5),
    ]
    assert kept.refused[1].message == "cluster(s) had untolerated taint {k:NoSchedule}"


def test_a_record_counts_what_the_whole_story_tells() -> None:
    picture = fleet(member("m1"), member("m2", taints=[{"key": "k", "effect": "NoSchedule"}]), member("m3"))
    placed = ask(placement={"clusterAffinity": {"clusterNames": ["m1", "m2"]}}, clusters=[{"name": "m2"}])
    decision = decide(placed, picture)
    told = {story.name for story in explain(decision).clusters if story.refused is not None}
    assert {name for group in record(decision, EPOCH).refused for name in group.clusters} == told == {"m3"}
