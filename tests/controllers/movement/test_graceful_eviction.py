"""When the old copy goes."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, item, placement
from views import FakeView

from trimtab.api.kinds.work import Binding, GracefulEvictionTask
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.contract import Note
from trimtab.controllers.movement.graceful_eviction import concerns_evictions, evict
from trimtab.controllers.well_known import TAINT_MANAGER

AFTER = NOON + timedelta(seconds=601)


def leaving(*items: Any, **fields: Any) -> Binding:
    task = GracefulEvictionTask(
        from_cluster="m1", replicas=2, purge_mode="Gracefully", producer="x", reason="R", creation_timestamp=NOON
    ).but(**fields)
    divided = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
    return binding(
        clusters={"m2": 2},
        graceful_eviction_tasks=(task,),
        placement=placement(replicaScheduling=divided),
        status_aggregated_status=items,
    )


def tasks_after(subject: Binding, *clusters: Any, **options: Any) -> int:
    wishes = list(evict(subject, FakeView(clusters, **options)))
    changed = [wish for wish in wishes if isinstance(wish, Binding)]
    return len((changed[-1] if changed else subject).spec.graceful_eviction_tasks)


def test_the_old_copy_goes_when_the_new_one_is_healthy() -> None:
    assert tasks_after(leaving(item("m1"), item("m2"))) == 0
    assert tasks_after(leaving(item("m1"), item("m2", "Unhealthy"))) == 1


def test_when_time_is_over_the_last_healthy_copy_stays() -> None:
    assert tasks_after(leaving(item("m1"), item("m2", "Unhealthy")), now=AFTER) == 1
    assert tasks_after(leaving(item("m1"), item("m2", "Unhealthy")), now=AFTER, profile=UPSTREAM) == 0


def test_when_time_is_over_an_unhealthy_copy_goes_if_it_was_replaced() -> None:
    assert tasks_after(leaving(item("m1", "Unhealthy"), item("m2", "Unhealthy")), now=AFTER) == 0
    assert tasks_after(leaving(item("m1", "Unhealthy")), now=AFTER) == 1


def test_somebody_decides_about_a_suppressed_deletion() -> None:
    assert tasks_after(leaving(item("m1"), item("m2"), suppress_deletion=True), now=AFTER) == 1
    assert tasks_after(leaving(item("m1"), suppress_deletion=False)) == 0


def test_a_recovered_cluster_gets_its_share_back_from_those_not_yet_ready() -> None:
    subject = leaving(item("m1"), item("m2", "Unhealthy", status={"readyReplicas": 0}), producer=TAINT_MANAGER)
    (after, note) = evict(subject, FakeView([cluster("m1"), cluster("m2")]))
    assert {t.name: t.replicas for t in after.spec.clusters} == {"m1": 2}
    assert after.spec.graceful_eviction_tasks == ()
    assert isinstance(note, Note)
    assert note.reason == "EvictionCancelled"


def test_while_the_cause_is_there_nothing_is_called_off() -> None:
    subject = leaving(item("m1"), item("m2", "Unhealthy"), producer=TAINT_MANAGER)
    assert tasks_after(subject, cluster("m1", "x:NoExecute"), cluster("m2")) == 1
    assert tasks_after(subject, cluster("m1", ready="False"), cluster("m2")) == 1
    assert tasks_after(subject, cluster("m1"), cluster("m2"), profile=UPSTREAM) == 1


def test_only_those_who_are_leaving_are_looked_at() -> None:
    assert concerns_evictions(None, leaving())
    assert not concerns_evictions(leaving(), binding())
    assert not list(evict(binding(), FakeView()))
