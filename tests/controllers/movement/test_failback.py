"""The way home."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, placement
from views import FakeView

from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, ResourceSummary
from trimtab.api.kinds.work import Binding, PreviousPlacement, TargetCluster
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.contract import Again
from trimtab.controllers.movement.failback import failback, window_of
from trimtab.decide.fleet import Fleet
from trimtab.plugins import filters, scores
from trimtab.registry import discover

MINUTE = timedelta(minutes=1)
GROUPS = [{"affinityName": "one", "clusterNames": ["m1"]}, {"affinityName": "two", "clusterNames": ["m2"]}]
LEFT = PreviousPlacement(clusters=(TargetCluster(name="m1", replicas=2),), affinity_name="one", since=NOON - MINUTE)


class Picture:
    def __init__(self, clusters: list[Cluster]) -> None:
        discover(filters)
        discover(scores)
        self.clusters = clusters

    def at(self, now: Any) -> Fleet[Cluster]:
        return Fleet.of(self.clusters, now=now)


def able(name: str, *taints: str, **more: Any) -> Cluster:
    found = cluster(name, *taints, **more)
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    room = ResourceSummary(allocatable={"pods": "110", "cpu": "8"})
    return found.but(status=found.status.but(api_enablements=enabled, resource_summary=room))


def away(previous: PreviousPlacement | None = LEFT, **fields: Any) -> Binding:
    return binding(
        clusters={"m2": 2},
        placement=placement(clusterAffinities=GROUPS, failback={"after": "5m"}),
        status_scheduler_observing_affinity_name="two",
        status_previous_placement=previous,
        **fields,
    )


def seen(subject: Binding, *clusters: Cluster, **options: Any) -> list[Any]:
    return list(failback(subject, FakeView(clusters, parts={"fleet": Picture(list(clusters))}, **options)))


def test_the_window_begins_when_the_better_place_is_open() -> None:
    after, again = seen(away(), able("m1"), able("m2"))
    assert after.status.previous_placement.healthy_since == NOON
    assert again == Again(300.0)


def test_a_flap_begins_the_window_anew() -> None:
    waiting = away(LEFT.but(healthy_since=NOON - 4 * MINUTE))
    (after,) = seen(waiting, able("m1", "broken:NoSchedule"), able("m2"))
    assert after.status.previous_placement.healthy_since is None
    assert seen(away(), able("m1", ready="False"), able("m2")) == []


def test_after_the_window_a_fresh_decision_is_asked_for_and_signed() -> None:
    ready = away(LEFT.but(healthy_since=NOON - 5 * MINUTE))
    after, _ = seen(ready, able("m1"), able("m2"))
    assert after.spec.reschedule_triggered_at == NOON
    assert after.metadata.annotations["trimtab.dev/asked-by"].startswith("Failback ")
    assert seen(away(LEFT.but(healthy_since=NOON - 4 * MINUTE)), able("m1"), able("m2")) == [Again(60.0)]


def test_it_is_not_asked_for_twice() -> None:
    ready = away(LEFT.but(healthy_since=NOON - 5 * MINUTE), reschedule_triggered_at=NOON)
    assert seen(ready, able("m1"), able("m2")) == []


def test_who_is_at_home_forgets_where_he_was() -> None:
    home = away().but(status=away().status.but(scheduler_observing_affinity_name="one"))
    (after,) = seen(home, able("m1"), able("m2"))
    assert after.status.previous_placement is None


def test_without_the_wish_nobody_returns() -> None:
    stays = away().but(spec=away().spec.but(placement=placement(clusterAffinities=GROUPS)))
    assert seen(stays, able("m1"), able("m2")) == []
    assert seen(away(), able("m1"), able("m2"), profile=UPSTREAM) == []


def test_every_return_that_was_undone_makes_the_next_wait_longer() -> None:
    def waits(undone: int) -> float:
        _, again = seen(away(LEFT.but(undone=undone)), able("m1"), able("m2"))
        return float(again.seconds) / 60

    assert [waits(undone) for undone in (0, 1, 2, 3)] == [5.0, 10.0, 20.0, 40.0]
    assert waits(1000) == 24 * 60


def test_a_window_longer_than_a_day_stays_as_it_was_asked_for() -> None:
    home = placement(clusterAffinities=GROUPS, failback={"after": "48h"})
    assert window_of(home, 0) == window_of(home, 3) == timedelta(hours=48)


def test_a_better_place_that_closes_and_opens_again_is_tried_as_if_for_the_first_time() -> None:
    (after,) = seen(away(LEFT.but(undone=3)), able("m1", ready="False"), able("m2"))
    assert after.status.previous_placement.undone == 0
