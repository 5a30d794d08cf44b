"""An observed decision is the same decision; its steps and the plugins that ran are reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from plugins.clusters import GROUPS, PREFERENCE, fleet, fleet_with_pods, fleet_with_scores, member, placement_request
from trimtab.api.profile import TRIMTAB
from trimtab.decide.karmada import decide, decide_all
from trimtab.decide.step_observer import StepResult
from trimtab.plugins import load

load()
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
ONE_CLUSTER = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}


class Recorder:
    """The steps and plugins in the order in which they ended."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, bool]] = []
        self.plugins: list[tuple[str, str]] = []

    @contextmanager
    def measure(self, step: str, plugin: str = "") -> Iterator[StepResult]:
        result = StepResult()
        yield result
        if plugin:
            self.plugins.append((step, plugin))
        else:
            self.steps.append((step, result.succeeded))


def test_steps_are_reported_in_order_and_scores_only_where_they_are_needed() -> None:
    plain, spread = Recorder(), Recorder()
    decide(placement_request(), fleet_with_pods(5, 5), TRIMTAB, plain)
    assert plain.steps == [("Filter", True), ("Select", True), ("AssignReplicas", True)]
    in_use = placement_request(placement=ONE_CLUSTER, clusters=[{"name": "m2"}])
    decide(in_use, fleet_with_pods(5, 5), TRIMTAB, spread)
    assert spread.steps == [("Filter", True), ("Score", True), ("Select", True), ("AssignReplicas", True)]
    assert ("Score", "ClusterLocality") in spread.plugins


def test_the_step_that_ends_a_decision_did_not_succeed() -> None:
    nowhere, too_many = Recorder(), Recorder()
    affinity = {"clusterAffinity": {"clusterNames": ["gone"]}}
    assert not decide(placement_request(placement=affinity), fleet_with_pods(5), TRIMTAB, nowhere).ok
    assert nowhere.steps == [("Filter", False)]
    divided = placement_request(placement={"replicaScheduling": AGGREGATED}, replicas=50)
    assert not decide(divided, fleet_with_pods(5, 5), TRIMTAB, too_many).ok
    assert too_many.steps[-1] == ("AssignReplicas", False)


def test_every_affinity_group_that_is_tried_is_reported() -> None:
    observer = Recorder()
    decide(placement_request(placement={"clusterAffinities": GROUPS}), fleet(member("m2")), TRIMTAB, observer)
    assert [step for step in observer.steps if step[0] == "Filter"] == [("Filter", False), ("Filter", True)]


def test_filters_run_once_while_their_results_are_cached() -> None:
    observer, clusters = Recorder(), fleet_with_pods(5, 5)
    decide(placement_request(), clusters, TRIMTAB, observer)
    first = observer.plugins.copy()
    assert ("Filter", "TaintToleration") in first
    decide(placement_request(), clusters, TRIMTAB, observer)
    assert ("Filter", "TaintToleration") not in observer.plugins[len(first) :]
    assert [step for step, _ in observer.steps].count("Filter") == 2


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 4},
        {"placement": {"clusterAffinities": GROUPS}, "replicas": 3},
        {"placement": {"replicaScheduling": AGGREGATED}, "replicas": 7, "clusters": [{"name": "m2", "replicas": 2}]},
        {"placement": {"prioritizerPolicy": PREFERENCE, **ONE_CLUSTER}},
        {"placement": ONE_CLUSTER, "clusters": [{"name": "m2"}]},
    ],
)
def test_an_observed_decision_is_the_same(spec: dict[str, Any]) -> None:
    request = placement_request(**spec)
    for clusters in (fleet_with_pods(5, 4, 3), fleet_with_scores(), fleet(member("m1"), member("m2"))):
        (observed,), _ = decide_all([request], clusters, TRIMTAB, Recorder())
        (plain,), _ = decide_all([request], clusters, TRIMTAB)
        assert (observed.clusters, observed.condition) == (plain.clusters, plain.condition)
