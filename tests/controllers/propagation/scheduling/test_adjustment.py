"""Shares that the intent of a binding keeps or restores in a decision."""

from typing import Any

import pytest
from builders import binding, cluster, placement

from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster
from trimtab.api.kinds.work import Binding, TargetCluster
from trimtab.api.profile import TRIMTAB
from trimtab.controllers.propagation.scheduling.adjustment import adjust_to_intent
from trimtab.controllers.propagation.scheduling.intent import SchedulingIntent
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import BindingDecision, decide_all
from trimtab.decide.request import placement_request_of
from trimtab.plugins import filters, scores
from trimtab.registry import discover

EVENLY = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


@pytest.fixture(scope="module", autouse=True)
def plugins() -> None:
    discover(filters)
    discover(scores)


def ready_cluster(name: str) -> Cluster:
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    found = cluster(name)
    return found.but(status=found.status.but(api_enablements=enabled))


def targets(**shares: int) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(name=name, replicas=n) for name, n in shares.items())


def decide(subject: Binding, *names: str) -> BindingDecision:
    (found,), _ = decide_all(
        [placement_request_of(subject)], Fleet.of([ready_cluster(name) for name in names]), TRIMTAB
    )
    assert found.ok
    return found


def adjusted(subject: Binding, decision: BindingDecision, **intent: Any) -> dict[str, int]:
    wish = SchedulingIntent("Rebalance", decision.request, **intent)
    return dict(adjust_to_intent(subject, decision, wish).clusters)


def test_without_a_wish_the_decision_stands() -> None:
    subject = binding(replicas=4, placement=placement(replicaScheduling=EVENLY))
    decision = decide(subject, "m1", "m2")
    assert adjusted(subject, decision) == {"m1": 2, "m2": 2}


def test_shares_are_restored_when_the_decision_selects_the_same_clusters_for_as_many_replicas() -> None:
    subject = binding(replicas=4, placement=placement(replicaScheduling=EVENLY))
    decision = decide(subject, "m1", "m2")
    assert adjusted(subject, decision, restore=targets(m1=3, m2=1)) == {"m1": 3, "m2": 1}
    assert adjusted(subject, decision, restore=targets(m1=3, m2=2)) == {"m1": 2, "m2": 2}, "another number of replicas"
    assert adjusted(subject, decision, restore=targets(m1=3, m9=1)) == {"m1": 2, "m2": 2}, "another cluster"


def test_kept_shares_stay_and_only_the_rest_follows_the_weights() -> None:
    subject = binding(replicas=6, placement=placement(replicaScheduling=EVENLY))
    decision = decide(subject, "m1", "m2")
    assert adjusted(subject, decision, keep=targets(m1=5)) == {"m1": 5, "m2": 1}


def test_shares_in_clusters_that_are_not_feasible_are_not_kept() -> None:
    subject = binding(replicas=4, placement=placement(replicaScheduling=EVENLY))
    decision = decide(subject, "m1", "m2")
    assert adjusted(subject, decision, keep=targets(gone=3)) == {"m1": 2, "m2": 2}


def test_replicas_stay_where_they_are_unless_fewer_clusters_suffice() -> None:
    subject = binding(clusters={"m1": 1, "m2": 3}, placement=placement(replicaScheduling=EVENLY))
    decision = decide(binding(replicas=4, placement=placement(replicaScheduling=EVENLY)), "m1", "m2")
    assert adjusted(subject, decision, only_if_fewer_clusters=True) == {"m1": 1, "m2": 3}
    three = binding(clusters={"m1": 1, "m2": 2, "m3": 1})
    assert adjusted(three, decision, only_if_fewer_clusters=True) == {"m1": 2, "m2": 2}
