"""Moves that are triggered by better scores."""

from datetime import timedelta
from typing import Any

import pytest
from builders import NOON, binding, cluster, placement
from views import FakeView

from trimtab import plugins
from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster
from trimtab.api.kinds.work import Binding, HeldReplicas
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.score_moves import score_moves, score_resources_of
from trimtab.decide.fleet import ExternalValue, Fleet

plugins.load()
MINUTE = timedelta(minutes=1)


class FleetWithScores:
    """The fleet of a view, with these scores."""

    def __init__(self, scores: dict[str, int], until: timedelta | None = None) -> None:
        self.scores, self.until = scores, until

    def at(self, now: Any) -> Fleet[Any]:
        end = NOON + self.until if self.until is not None else None
        notes = {
            "AddOnPlacementScore/cost": {name: ExternalValue({"s": value}, end) for name, value in self.scores.items()}
        }
        return Fleet.of([serving(cluster(name)) for name in ("m1", "m2")], now=now, external_values=notes)


def serving(one: Cluster) -> Cluster:
    """The cluster with the Deployment API enabled."""
    deployments = APIEnablement(
        group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)
    )
    return one.but(status=one.status.but(api_enablements=(deployments,)))


def ranked(**hysteresis: Any) -> Binding:
    coordinate = {"type": "AddOn", "addOn": {"resourceName": "cost", "scoreName": "s"}}
    wanted = placement(
        prioritizerPolicy={"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": 2}]},
        spreadConstraints=[{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        **({"scoreHysteresis": hysteresis} if hysteresis else {}),
    )
    return binding(
        clusters={"m1": 3},
        placement=wanted,
        replicas=3,
        status_scheduler_observed_generation=2,
        status_last_scheduled_time=NOON - timedelta(hours=1),
    )


def reconcile(subject: Binding, scores: dict[str, int], after: timedelta = timedelta(), **options: Any) -> list[Any]:
    view = FakeView([subject], now=NOON + after, fleet=FleetWithScores(scores, **options))
    return [effect for _, effect in score_moves([subject], view)]


def test_a_better_cluster_triggers_a_move_after_the_hysteresis_duration() -> None:
    subject = ranked()
    waiting, requeue = reconcile(subject, {"m1": 0, "m2": 50})
    assert [target.name for target in waiting.status.better_placement.clusters] == ["m2"]
    assert requeue == RequeueAfter(300.001)
    assert reconcile(waiting, {"m1": 0, "m2": 50}, 2 * MINUTE) == [RequeueAfter(180.001)]
    (moving,) = reconcile(waiting, {"m1": 0, "m2": 50}, 5 * MINUTE)
    assert moving.spec.reschedule_triggered_at == NOON + 5 * MINUTE
    assert binding_moves.reschedule_request_of(moving).reason == "ScoreChange"
    assert moving.status.better_placement is None


def test_a_score_that_flaps_every_minute_moves_nothing() -> None:
    subject = ranked()
    for minute in range(60):
        scores = {"m1": 0, "m2": 90 if minute % 2 else -90}
        for effect in reconcile(subject, scores, minute * MINUTE):
            if isinstance(effect, Binding):
                subject = effect
        assert subject.spec.reschedule_triggered_at is None


@pytest.mark.parametrize(("points", "triggers"), [(9, False), (10, True)])
def test_a_gain_below_the_margin_triggers_nothing(points: int, triggers: bool) -> None:
    effects = reconcile(ranked(), {"m1": 0, "m2": points})
    assert any(isinstance(effect, Binding) for effect in effects) is triggers


def test_margin_and_duration_come_from_the_policy() -> None:
    (moving,) = reconcile(ranked(margin=0, **{"for": "0s"}), {"m1": 0, "m2": 1})
    assert moving.spec.reschedule_triggered_at == NOON


def test_unscheduled_and_unranked_bindings_are_ignored() -> None:
    subject = ranked()
    undecided = subject.but(status=subject.status.but(scheduler_observed_generation=1))
    assert reconcile(undecided, {"m1": 0, "m2": 90}) == []
    assert reconcile(binding(clusters={"m1": 3}), {"m1": 0, "m2": 90}) == []


def test_nothing_is_compared_while_a_move_is_in_progress() -> None:
    subject = ranked(margin=0, **{"for": "0s"})
    holds = (HeldReplicas(cluster="m3", replicas=1, since=NOON, reason="ScoreChange"),)
    assert reconcile(subject.but(status=subject.status.but(holds=holds)), {"m1": 0, "m2": 90}) == []


def test_a_score_that_expires_requeues_the_binding() -> None:
    assert reconcile(ranked(), {"m1": 50, "m2": 0}, until=MINUTE) == [RequeueAfter(60.001)]


def test_score_resources_come_from_the_prioritizer_policy() -> None:
    assert score_resources_of(ranked()) == ["cost"]
    assert score_resources_of(binding()) == []
