"""Scores move workloads, but not at every whim."""

from datetime import timedelta
from typing import Any

import pytest
from builders import NOON, binding, cluster, placement
from views import FakeView

from trimtab import plugins
from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster
from trimtab.api.kinds.work import Binding
from trimtab.controllers.contract import Again
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.score_moves import rescore, resources_of
from trimtab.decide.fleet import Fleet, Note

plugins.load()
MINUTE = timedelta(minutes=1)


class Keeper:
    """The fleet part of a control plane, with scores as they are told."""

    def __init__(self, scores: dict[str, int], until: timedelta | None = None) -> None:
        self.scores, self.until = scores, until

    def at(self, now: Any) -> Fleet[Any]:
        end = NOON + self.until if self.until is not None else None
        notes = {"AddOnPlacementScore/cost": {name: Note({"s": value}, end) for name, value in self.scores.items()}}
        return Fleet.of([serving(cluster(name)) for name in ("m1", "m2")], now=now, notes=notes)


def serving(one: Cluster) -> Cluster:
    """A cluster that knows Deployments."""
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


def beat(subject: Binding, scores: dict[str, int], after: timedelta = timedelta(), **keeper: Any) -> list[Any]:
    view = FakeView([subject], now=NOON + after, parts={"fleet": Keeper(scores, **keeper)})
    return [wish for _, wish in rescore([subject], view)]


def test_a_better_cluster_waits_for_its_time_and_then_a_move_is_asked_for() -> None:
    subject = ranked()
    waiting, again = beat(subject, {"m1": 0, "m2": 50})
    assert [target.name for target in waiting.status.challenger.clusters] == ["m2"]
    assert again == Again(300.001)
    assert beat(waiting, {"m1": 0, "m2": 50}, 2 * MINUTE) == [Again(180.001)]
    (moving,) = beat(waiting, {"m1": 0, "m2": 50}, 5 * MINUTE)
    assert moving.spec.reschedule_triggered_at == NOON + 5 * MINUTE
    assert binding_moves.asked_by(moving).reason == "ScoreChange"
    assert moving.status.challenger is None


def test_a_score_that_flaps_every_minute_moves_nothing() -> None:
    subject = ranked()
    for minute in range(60):
        scores = {"m1": 0, "m2": 90 if minute % 2 else -90}
        for wish in beat(subject, scores, minute * MINUTE):
            if isinstance(wish, Binding):
                subject = wish
        assert subject.spec.reschedule_triggered_at is None


@pytest.mark.parametrize(("points", "moves_on"), [(9, False), (10, True)])
def test_a_little_better_is_not_enough(points: int, moves_on: bool) -> None:
    wishes = beat(ranked(), {"m1": 0, "m2": points})
    assert any(isinstance(wish, Binding) for wish in wishes) is moves_on


def test_margin_and_time_are_the_authors_choice() -> None:
    (moving,) = beat(ranked(margin=0, **{"for": "0s"}), {"m1": 0, "m2": 1})
    assert moving.spec.reschedule_triggered_at == NOON


def test_what_is_on_the_move_or_not_yet_decided_is_left_alone() -> None:
    subject = ranked()
    undecided = subject.but(status=subject.status.but(scheduler_observed_generation=1))
    assert beat(undecided, {"m1": 0, "m2": 90}) == []
    assert beat(binding(clusters={"m1": 3}), {"m1": 0, "m2": 90}) == []


def test_a_score_that_will_expire_is_looked_at_again() -> None:
    assert beat(ranked(), {"m1": 50, "m2": 0}, until=MINUTE) == [Again(60.001)]


def test_a_binding_knows_the_scores_it_is_ranked_by() -> None:
    assert resources_of(ranked()) == ["cost"]
    assert resources_of(binding()) == []
