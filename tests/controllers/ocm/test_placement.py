"""Placements get decisions that follow the fleet, and report them."""

from datetime import timedelta
from typing import Any

import pytest
from views import NOON, FakeView

from trimtab import plugins
from trimtab.api.kind import to_wire
from trimtab.api.kinds.ocm_clusters import (
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
    ManagedClusterSpec,
    ManagedClusterTaint,
)
from trimtab.api.kinds.ocm_placement import (
    AddOnPlacementScore,
    AddOnPlacementScoreStatus,
    AddOnScoreValue,
    ClusterPredicate,
    ClusterSelector,
    OcmPlacement,
    PlacementDecision,
    PlacementDecisionStatus,
    PlacementSpec,
    PlacementToleration,
)
from trimtab.api.kinds.policy import AddOnScore, PrioritizerConfig, PrioritizerPolicy, ScoreCoordinate
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta, Object
from trimtab.controllers.contract import Delete, RecordEvent, RequeueAfter
from trimtab.controllers.ocm.placement import (
    DISABLED,
    keys_for_binding,
    keys_for_cluster,
    keys_for_decision,
    keys_for_score,
    keys_for_set,
    placement,
)
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL, clusters_of

plugins.load()
EVERYTHING = ManagedClusterSelector(selector_type="LabelSelector", label_selector=LabelSelector())
SET_AND_BINDING = (
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
        scores=(AddOnScoreValue(name="s", value=value),), valid_until=NOON + until if until is not None else None
    )
    return AddOnPlacementScore(metadata=Meta(name="demo", namespace=name), status=status)


def by_score(weight: int = 1, steady: int = 0) -> PrioritizerPolicy:
    add_on = ScoreCoordinate(type="AddOn", add_on=AddOnScore(resource_name="demo", score_name="s"))
    configurations = [PrioritizerConfig(score_coordinate=add_on, weight=weight)]
    if steady:
        keep = ScoreCoordinate(type="BuiltIn", built_in="Steady")
        configurations.append(PrioritizerConfig(score_coordinate=keep, weight=steady))
    return PrioritizerPolicy(mode="Exact", configurations=tuple(configurations))


def new_placement(**spec: Any) -> OcmPlacement:
    return OcmPlacement(metadata=Meta(name="p", namespace="team", uid="u"), spec=PlacementSpec(**spec))


class FakeWorld:
    """A Placement with other objects, to which effects are applied."""

    def __init__(self, subject: OcmPlacement, *things: Object, profile: Profile = TRIMTAB) -> None:
        self.subject, self.profile, self.now = subject, profile, NOON
        self.things: dict[Any, Object] = {}
        self.put(*SET_AND_BINDING, *things)

    def put(self, *things: Object) -> None:
        self.things |= {(type(thing), thing.namespace, thing.name): thing for thing in things}

    def reconcile(self) -> list[Any]:
        view = FakeView([*self.things.values(), self.subject], now=self.now, profile=self.profile)
        effects = list(placement(self.subject, view))
        for effect in effects:
            if isinstance(effect, OcmPlacement):
                self.subject = effect
            elif isinstance(effect, PlacementDecision):
                self.put(effect)
            elif isinstance(effect, Delete):
                assert isinstance(effect.target, PlacementDecision)
                del self.things[PlacementDecision, effect.target.namespace, effect.target.name]
        return effects

    @property
    def chosen(self) -> list[str]:
        return [
            name
            for thing in self.things.values()
            if isinstance(thing, PlacementDecision)
            for name in clusters_of(thing)
        ]

    def condition(self, type_: str) -> tuple[str, str]:
        found = next(c for c in self.subject.status.conditions if c.type == type_)
        return found.status, found.reason


def writes_in(effects: list[Any]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, Object | Delete | RecordEvent)]


def test_current_decision_is_not_written_again() -> None:
    world = FakeWorld(new_placement(number_of_clusters=2), *(cluster(name) for name in "abc"))
    assert writes_in(world.reconcile())
    assert world.chosen == ["a", "b"]
    assert writes_in(world.reconcile()) == []


def with_stray_label(decision: PlacementDecision) -> PlacementDecision:
    return decision.but(metadata=decision.metadata.but(labels={**decision.metadata.labels, "stray": "x"}))


def with_other_name(decision: PlacementDecision) -> PlacementDecision:
    return decision.but(metadata=decision.metadata.but(name="p-decision-9"))


def in_reverse_order(decision: PlacementDecision) -> PlacementDecision:
    assert decision.status is not None
    return decision.but(status=decision.status.but(decisions=decision.status.decisions[::-1]))


def without_last_cluster(decision: PlacementDecision) -> PlacementDecision:
    assert decision.status is not None
    return decision.but(status=decision.status.but(decisions=decision.status.decisions[:-1]))


@pytest.mark.parametrize("damage", [with_stray_label, with_other_name, in_reverse_order, without_last_cluster])
@pytest.mark.parametrize("count", [3, 150])
def test_damaged_decision_is_restored(damage: Any, count: int) -> None:
    world = FakeWorld(new_placement(), *(cluster(f"c{n:03}") for n in range(count)))
    world.reconcile()
    intact = {key: thing for key, thing in world.things.items() if key[0] is PlacementDecision}
    assert writes_in(world.reconcile()) == []
    first = next(iter(intact.values()))
    del world.things[PlacementDecision, first.namespace, first.name]
    world.put(damage(first))
    world.reconcile()
    world.reconcile()
    assert {key: thing for key, thing in world.things.items() if key[0] is PlacementDecision} == intact


def test_decisions_have_the_format_that_argo_cd_reads() -> None:
    world = FakeWorld(new_placement(), cluster("a"))
    (decision,) = [effect for effect in world.reconcile() if isinstance(effect, PlacementDecision)]
    raw = to_wire(decision)
    assert raw["metadata"]["labels"][PLACEMENT_LABEL] == "p"
    assert raw["status"]["decisions"] == [{"clusterName": "a", "reason": ""}]
    assert raw["metadata"]["ownerReferences"][0]["kind"] == "Placement"


def test_more_than_a_hundred_clusters_need_several_decisions() -> None:
    world = FakeWorld(new_placement(), *(cluster(f"c{n:03}") for n in range(250)))
    world.reconcile()
    decisions = [thing for thing in world.things.values() if isinstance(thing, PlacementDecision)]
    assert [len(clusters_of(decision)) for decision in decisions] == [100, 100, 50]
    assert world.subject.status.decision_groups[0].clusters_count == 250
    world.subject = world.subject.but(spec=PlacementSpec(number_of_clusters=1))
    world.reconcile()
    assert [thing.name for thing in world.things.values() if isinstance(thing, PlacementDecision)] == ["p-decision-1"]


def test_cluster_that_moves_to_another_decision_is_never_missing() -> None:
    world = FakeWorld(new_placement(), *(cluster(f"c{n:03}") for n in range(150)))
    world.reconcile()
    before = set(world.chosen)
    pages = {d.name: set(clusters_of(d)) for d in world.things.values() if isinstance(d, PlacementDecision)}
    world.put(cluster("a-new-first"))
    for effect in world.reconcile():
        if isinstance(effect, PlacementDecision):
            pages[effect.name] = set(clusters_of(effect))
            assert before <= set().union(*pages.values())
    assert len(world.chosen) == 151


def test_failed_cluster_is_replaced_and_steady_placement_stays_after_recovery() -> None:
    primary, backup = score("primary", 100), score("zbackup", 0)
    world = FakeWorld(
        new_placement(number_of_clusters=1, prioritizer_policy=by_score(steady=2)),
        cluster("primary"),
        cluster("zbackup"),
        primary,
        backup,
    )
    world.reconcile()
    assert world.chosen == ["primary"]
    world.put(cluster("primary", taint()))
    world.reconcile()
    assert world.chosen == ["zbackup"]
    world.put(cluster("primary"))
    world.reconcile()
    assert world.chosen == ["zbackup"]


def test_negative_weight_prefers_the_lowest_score() -> None:
    world = FakeWorld(
        new_placement(number_of_clusters=1, prioritizer_policy=by_score(-1)),
        cluster("a"),
        cluster("b"),
        score("a", 50),
        score("b", -50),
    )
    world.reconcile()
    assert world.chosen == ["b"]


def test_sort_by_score_rate_limits_changes_of_order_only() -> None:
    subject = new_placement(prioritizer_policy=by_score(), sort_by="Score", score_rate_limit="1m")
    world = FakeWorld(subject, cluster("a"), cluster("b"), score("a", 1), score("b", 50))
    world.reconcile()
    assert world.chosen == ["b", "a"]
    (decision,) = [thing for thing in world.things.values() if isinstance(thing, PlacementDecision)]
    assert [entry.score for entry in (decision.status or PlacementDecisionStatus()).decisions] == [50, 1]
    world.put(score("a", 90))
    world.now = NOON + timedelta(seconds=20)
    assert RequeueAfter(40.0) in world.reconcile()
    assert world.chosen == ["b", "a"]
    world.put(cluster("c"))
    world.reconcile()
    assert world.chosen == ["a", "b", "c"], "a changed set of clusters is never delayed"
    ignored = FakeWorld(subject, cluster("a"), cluster("b"), score("b", 50), profile=UPSTREAM)
    ignored.reconcile()
    assert ignored.chosen == ["a", "b"]


@pytest.mark.parametrize(("profile", "wait"), [(TRIMTAB, 60.001), (UPSTREAM, 300.0)])
def test_placement_is_requeued_when_a_score_expires(profile: Profile, wait: float) -> None:
    subject = new_placement(number_of_clusters=1, prioritizer_policy=by_score())
    scores = (score("a", -10), score("b", 50, timedelta(minutes=1)))
    world = FakeWorld(subject, cluster("a"), cluster("b"), *scores, profile=profile)
    assert world.reconcile()[-1] == RequeueAfter(wait)
    assert world.chosen == ["b"]
    world.now = NOON + timedelta(minutes=1, seconds=1)
    effects = world.reconcile()
    assert world.chosen == ["b"], "an expired score counts 0, which is still better than -10"
    assert writes_in(effects) == []


def test_cluster_is_left_when_the_toleration_ends() -> None:
    tolerated = PlacementToleration(key="drain", operator="Exists", toleration_seconds=120)
    world = FakeWorld(new_placement(tolerations=(tolerated,)), cluster("a", taint("drain")), cluster("b"))
    world.reconcile()
    assert world.reconcile() == [RequeueAfter(120.001)]
    world.now = NOON + timedelta(seconds=120)
    world.reconcile()
    assert world.chosen == ["b"]


@pytest.mark.parametrize(("profile", "remaining"), [(TRIMTAB, ["a"]), (UPSTREAM, [])])
def test_invalid_placement_keeps_its_decisions(profile: Profile, remaining: list[str]) -> None:
    world = FakeWorld(new_placement(), cluster("a"), profile=profile)
    world.reconcile()
    world.subject = world.subject.but(spec=PlacementSpec(prioritizer_policy=PrioritizerPolicy(mode="Odd")))
    world.reconcile()
    assert world.chosen == remaining
    assert world.condition("PlacementMisconfigured") == ("True", "Misconfigured")


def test_new_invalid_placement_is_not_satisfied() -> None:
    world = FakeWorld(new_placement(prioritizer_policy=PrioritizerPolicy(mode="Odd")), cluster("a"))
    world.reconcile()
    assert world.condition("PlacementSatisfied") == ("False", "NoManagedClusterMatched")
    assert world.condition("PlacementMisconfigured") == ("True", "Misconfigured")


def test_negative_number_of_clusters_changes_no_decision() -> None:
    for profile in (TRIMTAB, UPSTREAM):
        world = FakeWorld(new_placement(), cluster("a"), profile=profile)
        world.reconcile()
        world.subject = world.subject.but(spec=PlacementSpec(number_of_clusters=-1))
        world.reconcile()
        assert world.chosen == ["a"]
        assert world.condition("PlacementMisconfigured") == ("True", "Misconfigured")


def test_placement_with_scheduling_disabled_is_ignored() -> None:
    subject = new_placement()
    disabled = subject.but(metadata=subject.metadata.but(annotations={DISABLED: "true"}))
    assert FakeWorld(disabled, cluster("a")).reconcile() == []


def keys(found: Any) -> list[str]:
    return sorted({f"{key.namespace}/{key.name}" for key in found})


def test_change_queues_only_affected_placements() -> None:
    with_score = new_placement(prioritizer_policy=by_score())
    other = OcmPlacement(metadata=Meta(name="q", namespace="team"), spec=PlacementSpec(cluster_sets=("other",)))
    a = cluster("a")
    view = FakeView([*SET_AND_BINDING, with_score, other, a])
    assert keys(keys_for_cluster(None, a, view)) == ["team/p"]
    heartbeat = a.but(status=a.status.but(conditions=()), metadata=a.metadata.but(resource_version="2"))
    assert keys(keys_for_cluster(a, heartbeat, view)) == []
    assert keys(keys_for_cluster(a, cluster("a", taint()), view)) == ["team/p"]
    assert keys(keys_for_set(SET_AND_BINDING[0], None, view)) == ["team/p"]
    assert keys(keys_for_binding(None, SET_AND_BINDING[1], view)) == ["team/p"]
    assert keys(keys_for_score(None, score("a", 1), view)) == ["team/p"]
    unused = AddOnPlacementScore(metadata=Meta(name="else", namespace="a"))
    assert keys(keys_for_score(None, unused, view)) == []
    decision = PlacementDecision(metadata=Meta(name="x", namespace="team", labels={PLACEMENT_LABEL: "q"}))
    assert keys(keys_for_decision(None, decision, view)) == ["team/q"]


@pytest.mark.parametrize(
    ("profile", "why"),
    [(TRIMTAB, "; filters reject 2 of 3 clusters: Predicate 1, TaintToleration 1"), (UPSTREAM, "")],
)
def test_unsatisfied_placement_names_what_rejected_the_clusters(profile: Profile, why: str) -> None:
    selector = ClusterSelector(label_selector=LabelSelector(match_labels={"env": "prod"}))
    predicate = ClusterPredicate(required_cluster_selector=selector)
    fleet = [cluster("a"), cluster("b", taint(), env="prod"), cluster("c", env="prod")]
    world = FakeWorld(new_placement(number_of_clusters=2, predicates=(predicate,)), *fleet, profile=profile)
    for _ in range(2):
        world.reconcile()
        (satisfied,) = [c for c in world.subject.status.conditions if c.type == "PlacementSatisfied"]
        assert (satisfied.reason, satisfied.message) == (
            "NotAllDecisionsScheduled",
            f"1 cluster decisions unscheduled{why}",
        )
