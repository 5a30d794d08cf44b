"""Placements are answered, kept answered, and tell what they were answered with."""

from datetime import timedelta
from typing import Any

import pytest
from views import NOON, FakeView

from trimtab import plugins
from trimtab.api.kind import wire
from trimtab.api.kinds.ocm import (
    AddOnPlacementScore,
    AddOnPlacementScoreStatus,
    ClusterPredicate,
    ClusterSelector,
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
    ManagedClusterSpec,
    ManagedClusterTaint,
    OcmPlacement,
    PlacementDecision,
    PlacementDecisionStatus,
    PlacementSpec,
    PlacementToleration,
    Score,
)
from trimtab.api.kinds.policy import AddOnScore, PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta, Object
from trimtab.controllers.contract import Again, Gone, Note
from trimtab.controllers.ocm.placement import (
    DISABLED,
    for_binding,
    for_cluster,
    for_decision,
    for_score,
    for_set,
    place,
)
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL, clusters_of

plugins.load()
EVERYTHING = ManagedClusterSelector(selector_type="LabelSelector", label_selector=LabelSelector())
ROOM = (
    ManagedClusterSet(metadata=Meta(name="all"), spec=ManagedClusterSetSpec(cluster_selector=EVERYTHING)),
    ManagedClusterSetBinding(
        metadata=Meta(name="all", namespace="team"), spec=ManagedClusterSetBindingSpec(cluster_set="all")
    ),
)


def cluster(name: str, *taints: ManagedClusterTaint, **labels: str) -> ManagedCluster:
    return ManagedCluster(metadata=Meta(name=name, labels=labels), spec=ManagedClusterSpec(taints=taints))


def taint(key: str = "cluster.open-cluster-management.io/unavailable", effect: str = "NoSelect") -> ManagedClusterTaint:
    return ManagedClusterTaint(key=key, effect=effect, time_added=NOON)


def score(name: str, value: int, until: timedelta | None = None) -> AddOnPlacementScore:
    status = AddOnPlacementScoreStatus(
        scores=(Score(name="s", value=value),), valid_until=NOON + until if until is not None else None
    )
    return AddOnPlacementScore(metadata=Meta(name="demo", namespace=name), status=status)


def by_score(weight: int = 1, steady: int = 0) -> PrioritizerPolicy:
    add_on = ScoreCoordinate(type="AddOn", add_on=AddOnScore(resource_name="demo", score_name="s"))
    configurations = [PrioritizerConfig(score_coordinate=add_on, weight=weight)]
    if steady:
        keep = ScoreCoordinate(type="BuiltIn", built_in="Steady")
        configurations.append(PrioritizerConfig(score_coordinate=keep, weight=steady))
    return PrioritizerPolicy(mode="Exact", configurations=tuple(configurations))


def placement(**spec: Any) -> OcmPlacement:
    return OcmPlacement(metadata=Meta(name="p", namespace="team", uid="u"), spec=PlacementSpec(**spec))


class World:
    """Objects that change as wishes come true."""

    def __init__(self, subject: OcmPlacement, *things: Object, profile: Profile = TRIMTAB) -> None:
        self.subject, self.profile, self.now = subject, profile, NOON
        self.things: dict[Any, Object] = {}
        self.put(*ROOM, *things)

    def put(self, *things: Object) -> None:
        self.things |= {(type(thing), thing.namespace, thing.name): thing for thing in things}

    def beat(self) -> list[Any]:
        view = FakeView([*self.things.values(), self.subject], now=self.now, profile=self.profile)
        wishes = list(place(self.subject, view))
        for wish in wishes:
            if isinstance(wish, OcmPlacement):
                self.subject = wish
            elif isinstance(wish, PlacementDecision):
                self.put(wish)
            elif isinstance(wish, Gone):
                assert isinstance(wish.target, PlacementDecision)
                del self.things[PlacementDecision, wish.target.namespace, wish.target.name]
        return wishes

    @property
    def chosen(self) -> list[str]:
        return [
            name
            for thing in self.things.values()
            if isinstance(thing, PlacementDecision)
            for name in clusters_of(thing)
        ]

    def said(self, type_: str) -> tuple[str, str]:
        found = next(c for c in self.subject.status.conditions if c.type == type_)
        return found.status, found.reason


def written(wishes: list[Any]) -> list[Any]:
    return [wish for wish in wishes if isinstance(wish, Object | Gone | Note)]


def test_an_answer_that_stands_costs_nothing() -> None:
    world = World(placement(number_of_clusters=2), *(cluster(name) for name in "abc"))
    assert written(world.beat())
    assert world.chosen == ["a", "b"]
    assert written(world.beat()) == []


def relabelled(decision: PlacementDecision) -> PlacementDecision:
    return decision.but(metadata=decision.metadata.but(labels={**decision.metadata.labels, "stray": "x"}))


def renamed(decision: PlacementDecision) -> PlacementDecision:
    return decision.but(metadata=decision.metadata.but(name="p-decision-9"))


def reversed_(decision: PlacementDecision) -> PlacementDecision:
    assert decision.status is not None
    return decision.but(status=decision.status.but(decisions=decision.status.decisions[::-1]))


def shortened(decision: PlacementDecision) -> PlacementDecision:
    assert decision.status is not None
    return decision.but(status=decision.status.but(decisions=decision.status.decisions[:-1]))


@pytest.mark.parametrize("spoil", [relabelled, renamed, reversed_, shortened])
@pytest.mark.parametrize("count", [3, 150])
def test_a_decision_that_somebody_spoilt_is_mended(spoil: Any, count: int) -> None:
    world = World(placement(), *(cluster(f"c{n:03}") for n in range(count)))
    world.beat()
    whole = {key: thing for key, thing in world.things.items() if key[0] is PlacementDecision}
    assert written(world.beat()) == []
    first = next(iter(whole.values()))
    del world.things[PlacementDecision, first.namespace, first.name]
    world.put(spoil(first))
    world.beat()
    world.beat()
    assert {key: thing for key, thing in world.things.items() if key[0] is PlacementDecision} == whole


def test_decisions_have_the_shape_that_argo_cd_reads() -> None:
    world = World(placement(), cluster("a"))
    (decision,) = [wish for wish in world.beat() if isinstance(wish, PlacementDecision)]
    raw = wire(decision)
    assert raw["metadata"]["labels"][PLACEMENT_LABEL] == "p"
    assert raw["status"]["decisions"] == [{"clusterName": "a", "reason": ""}]
    assert raw["metadata"]["ownerReferences"][0]["kind"] == "Placement"


def test_more_than_a_hundred_clusters_take_several_objects() -> None:
    world = World(placement(), *(cluster(f"c{n:03}") for n in range(250)))
    world.beat()
    decisions = [thing for thing in world.things.values() if isinstance(thing, PlacementDecision)]
    assert [len(clusters_of(decision)) for decision in decisions] == [100, 100, 50]
    assert world.subject.status.decision_groups[0].clusters_count == 250
    world.subject = world.subject.but(spec=PlacementSpec(number_of_clusters=1))
    world.beat()
    assert [thing.name for thing in world.things.values() if isinstance(thing, PlacementDecision)] == ["p-decision-1"]


def test_a_cluster_that_moves_to_another_object_is_never_missing_in_between() -> None:
    world = World(placement(), *(cluster(f"c{n:03}") for n in range(150)))
    world.beat()
    before = set(world.chosen)
    there = {d.name: set(clusters_of(d)) for d in world.things.values() if isinstance(d, PlacementDecision)}
    world.put(cluster("a-new-first"))
    for wish in world.beat():
        if isinstance(wish, PlacementDecision):
            there[wish.name] = set(clusters_of(wish))
            assert before <= set().union(*there.values())
    assert len(world.chosen) == 151


def test_a_failed_cluster_is_replaced_and_a_steady_placement_stays_after_it_recovers() -> None:
    primary, backup = score("primary", 100), score("zbackup", 0)
    world = World(
        placement(number_of_clusters=1, prioritizer_policy=by_score(steady=2)),
        cluster("primary"),
        cluster("zbackup"),
        primary,
        backup,
    )
    world.beat()
    assert world.chosen == ["primary"]
    world.put(cluster("primary", taint()))
    world.beat()
    assert world.chosen == ["zbackup"]
    world.put(cluster("primary"))
    world.beat()
    assert world.chosen == ["zbackup"]


def test_a_negative_weight_prefers_the_lowest_score() -> None:
    world = World(
        placement(number_of_clusters=1, prioritizer_policy=by_score(-1)),
        cluster("a"),
        cluster("b"),
        score("a", 50),
        score("b", -50),
    )
    world.beat()
    assert world.chosen == ["b"]


def test_decisions_may_be_wanted_best_first_and_order_alone_is_not_rewritten_all_the_time() -> None:
    subject = placement(prioritizer_policy=by_score(), sort_by="Score", score_rate_limit="1m")
    world = World(subject, cluster("a"), cluster("b"), score("a", 1), score("b", 50))
    world.beat()
    assert world.chosen == ["b", "a"]
    (decision,) = [thing for thing in world.things.values() if isinstance(thing, PlacementDecision)]
    assert [entry.score for entry in (decision.status or PlacementDecisionStatus()).decisions] == [50, 1]
    world.put(score("a", 90))
    world.now = NOON + timedelta(seconds=20)
    assert Again(40.0) in world.beat()
    assert world.chosen == ["b", "a"]
    world.put(cluster("c"))
    world.beat()
    assert world.chosen == ["a", "b", "c"], "who is in and who is out is never delayed"
    ignored = World(subject, cluster("a"), cluster("b"), score("b", 50), profile=UPSTREAM)
    ignored.beat()
    assert ignored.chosen == ["a", "b"]


@pytest.mark.parametrize(("profile", "wait"), [(TRIMTAB, 60.001), (UPSTREAM, 300.0)])
def test_a_score_in_use_that_will_expire_is_waited_for(profile: Profile, wait: float) -> None:
    subject = placement(number_of_clusters=1, prioritizer_policy=by_score())
    scores = (score("a", -10), score("b", 50, timedelta(minutes=1)))
    world = World(subject, cluster("a"), cluster("b"), *scores, profile=profile)
    assert world.beat()[-1] == Again(wait)
    assert world.chosen == ["b"]
    world.now = NOON + timedelta(minutes=1, seconds=1)
    wishes = world.beat()
    assert world.chosen == ["b"], "an expired score counts 0, which is still better than -10"
    assert written(wishes) == []


def test_a_toleration_that_ends_is_waited_for_and_then_the_cluster_is_left() -> None:
    tolerated = PlacementToleration(key="drain", operator="Exists", toleration_seconds=120)
    world = World(placement(tolerations=(tolerated,)), cluster("a", taint("drain")), cluster("b"))
    world.beat()
    assert world.beat() == [Again(120.001)]
    world.now = NOON + timedelta(seconds=120)
    world.beat()
    assert world.chosen == ["b"]


@pytest.mark.parametrize(("profile", "left"), [(TRIMTAB, ["a"]), (UPSTREAM, [])])
def test_a_placement_that_cannot_be_understood_costs_nobody_their_clusters(profile: Profile, left: list[str]) -> None:
    world = World(placement(), cluster("a"), profile=profile)
    world.beat()
    world.subject = world.subject.but(spec=PlacementSpec(prioritizer_policy=PrioritizerPolicy(mode="Odd")))
    world.beat()
    assert world.chosen == left
    assert world.said("PlacementMisconfigured") == ("True", "Misconfigured")


def test_a_new_placement_that_cannot_be_understood_is_not_satisfied() -> None:
    world = World(placement(prioritizer_policy=PrioritizerPolicy(mode="Odd")), cluster("a"))
    world.beat()
    assert world.said("PlacementSatisfied") == ("False", "NoManagedClusterMatched")
    assert world.said("PlacementMisconfigured") == ("True", "Misconfigured")


def test_a_negative_number_of_clusters_changes_no_decision_in_either_profile() -> None:
    for profile in (TRIMTAB, UPSTREAM):
        world = World(placement(), cluster("a"), profile=profile)
        world.beat()
        world.subject = world.subject.but(spec=PlacementSpec(number_of_clusters=-1))
        world.beat()
        assert world.chosen == ["a"]
        assert world.said("PlacementMisconfigured") == ("True", "Misconfigured")


def test_a_placement_that_somebody_else_decides_is_left_alone() -> None:
    subject = placement()
    disabled = subject.but(metadata=subject.metadata.but(annotations={DISABLED: "true"}))
    assert World(disabled, cluster("a")).beat() == []


def keys(found: Any) -> list[str]:
    return sorted({f"{key.namespace}/{key.name}" for key in found})


def test_what_changes_wakes_only_those_whom_it_concerns() -> None:
    with_score = placement(prioritizer_policy=by_score())
    other = OcmPlacement(metadata=Meta(name="q", namespace="team"), spec=PlacementSpec(cluster_sets=("other",)))
    a = cluster("a")
    view = FakeView([*ROOM, with_score, other, a])
    assert keys(for_cluster(None, a, view)) == ["team/p"]
    beaten = a.but(status=a.status.but(conditions=()), metadata=a.metadata.but(resource_version="2"))
    assert keys(for_cluster(a, beaten, view)) == []
    assert keys(for_cluster(a, cluster("a", taint()), view)) == ["team/p"]
    assert keys(for_set(ROOM[0], None, view)) == ["team/p"]
    assert keys(for_binding(None, ROOM[1], view)) == ["team/p"]
    assert keys(for_score(None, score("a", 1), view)) == ["team/p"]
    foreign = AddOnPlacementScore(metadata=Meta(name="else", namespace="a"))
    assert keys(for_score(None, foreign, view)) == []
    decision = PlacementDecision(metadata=Meta(name="x", namespace="team", labels={PLACEMENT_LABEL: "q"}))
    assert keys(for_decision(None, decision, view)) == ["team/q"]


@pytest.mark.parametrize(
    ("profile", "why"),
    [(TRIMTAB, "; of 3 clusters were turned down: Predicate 1, TaintToleration 1"), (UPSTREAM, "")],
)
def test_a_placement_that_lacks_clusters_says_who_turned_them_down(profile: Profile, why: str) -> None:
    labelled = ClusterSelector(label_selector=LabelSelector(match_labels={"env": "prod"}))
    wanted = ClusterPredicate(required_cluster_selector=labelled)
    fleet = [cluster("a"), cluster("b", taint(), env="prod"), cluster("c", env="prod")]
    world = World(placement(number_of_clusters=2, predicates=(wanted,)), *fleet, profile=profile)
    for _ in range(2):
        world.beat()
        (said,) = [c for c in world.subject.status.conditions if c.type == "PlacementSatisfied"]
        assert (said.reason, said.message) == ("NotAllDecisionsScheduled", f"1 cluster decisions unscheduled{why}")
