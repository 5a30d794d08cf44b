"""Rebalancers, followed from the wish to the end."""

from datetime import datetime, timedelta
from typing import Any

from builders import MINUTE, NOON, binding, deployment, item
from views import FakeView

from trimtab.api.kinds.rebalancer import (
    ObservedWorkload,
    RebalancerSpec,
    RebalancerStatus,
    WorkloadRebalancer,
    WorkloadReference,
    WorkloadSelector,
)
from trimtab.api.kinds.work import Binding, Hold, TargetCluster
from trimtab.api.profile import UPSTREAM
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta
from trimtab.controllers.contract import Again, Gone, Note
from trimtab.controllers.movement.rebalance import rebalance

SECOND = timedelta(seconds=1)


def ref(name: str) -> WorkloadReference:
    return WorkloadReference(api_version="apps/v1", kind="Deployment", namespace="demo", name=name)


def job(*names: str, status: RebalancerStatus | None = None, generation: int = 1, **spec: Any) -> WorkloadRebalancer:
    return WorkloadRebalancer(
        metadata=Meta(name="job", resource_version="4", generation=generation, creation_timestamp=NOON),
        spec=RebalancerSpec(workloads=tuple(map(ref, names))).but(**spec),
        status=status or RebalancerStatus(),
    )


def run(subject: WorkloadRebalancer, *things: Any, **options: Any) -> tuple[list[Any], WorkloadRebalancer]:
    wishes = list(rebalance(subject, FakeView(things, **options)))
    after = [wish for wish in wishes if isinstance(wish, WorkloadRebalancer)]
    return wishes, after[-1] if after else subject


def phases(subject: WorkloadRebalancer) -> dict[str, str]:
    return {i.workload.name: i.phase for i in subject.status.observed_workloads}


def moving(name: str = "web", **fields: Any) -> RebalancerStatus:
    before = (TargetCluster(name="m1", replicas=2),)
    fields = {"phase": "Moving", "result": "Successful", "before": before, "triggered_at": NOON, **fields}
    return RebalancerStatus(
        observed_workloads=(ObservedWorkload(workload=ref(name)).but(**fields),), observed_generation=1
    )


def test_a_workload_is_stamped_after_its_last_decision_and_the_stamp_is_signed() -> None:
    busy = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON + MINUTE)
    wishes, after = run(job("web"), busy)
    (stamped,) = [wish for wish in wishes if isinstance(wish, Binding)]
    assert stamped.spec.reschedule_triggered_at == NOON + MINUTE + SECOND
    assert "job" in stamped.metadata.annotations["trimtab.dev/asked-by"]
    (observed,) = after.status.observed_workloads
    assert (observed.result, observed.phase) == ("Successful", "Moving")
    assert observed.before == busy.spec.clusters
    assert after.status.finish_time is None


def test_a_workload_without_a_binding_fails_for_good() -> None:
    _, after = run(job("ghost"))
    assert phases(after) == {"ghost": "Failed"}
    assert after.status.observed_workloads[0].reason == "ReferencedBindingNotFound"
    assert after.status.finish_time == NOON
    assert {c.type: c.status for c in after.status.conditions} == {
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
    }


def test_a_binding_of_another_group_is_not_the_workload_that_was_meant() -> None:
    other = binding(clusters={"m1": 2})
    other = other.but(spec=other.spec.but(resource=other.spec.resource.but(api_version="other.io/v1")))
    _, after = run(job("web"), other)
    assert phases(after) == {"web": "Failed"}


def test_no_more_than_so_many_move_at_once() -> None:
    things = [binding(name, clusters={"m1": 1}) for name in ("a", "b", "c")]
    _, after = run(job("a", "b", "c", max_parallel=2), *things)
    assert phases(after) == {"a": "Moving", "b": "Moving", "c": "Pending"}


def test_what_is_under_way_counts_before_anything_new_begins() -> None:
    things = [binding(name, clusters={"m1": 1}) for name in ("a", "b")]
    status = moving("b", triggered_at=NOON + MINUTE)
    _, after = run(job("a", "b", max_parallel=1, status=status), *things)
    assert phases(after)["a"] == "Pending"


def test_a_suspended_rebalancer_begins_nothing() -> None:
    wishes, after = run(job("web", suspend=True), binding(clusters={"m1": 1}))
    assert phases(after) == {"web": "Pending"}
    assert not [wish for wish in wishes if isinstance(wish, Binding)]


def test_selectors_are_looked_up_once_for_each_generation() -> None:
    selector = WorkloadSelector(
        api_version="apps/v1", kind="Deployment", label_selector=LabelSelector(match_labels={"a": "b"})
    )
    raws = [deployment("web", labels={"a": "b"}), deployment("other"), deployment("unbound", labels={"a": "b"})]
    things = [binding("web", clusters={"m1": 1}), binding("other", clusters={"m1": 1})]
    _, after = run(job(selectors=(selector,)), *things, raws=raws)
    assert phases(after) == {"web": "Moving"}
    late = [*raws, deployment("late", labels={"a": "b"})]
    _, again = run(after, *things, binding("late", clusters={"m1": 1}), raws=late)
    assert list(phases(again)) == ["web"]


def test_selectors_that_find_nothing_are_not_called_done() -> None:
    nobody = WorkloadSelector(api_version="apps/v1", kind="Deployment")
    _, after = run(job(selectors=(nobody,)), raws=[])
    said = {c.type: (c.status, c.reason) for c in after.status.conditions}
    assert said["Ready"] == ("False", "NothingSelected")
    assert said["Stalled"] == ("True", "NothingSelected")
    assert after.status.finish_time == NOON


def test_it_is_done_when_the_placement_changed_and_everything_is_well() -> None:
    moved = binding(clusters={"m1": 1, "m2": 1}, status_last_scheduled_time=NOON, reschedule_triggered_at=NOON)
    held = moved.but(status=moved.status.but(holds=(Hold(cluster="m1", replicas=1),)))
    assert phases(run(job("web", status=moving()), held)[1]) == {"web": "Moving"}
    well = moved.but(status=moved.status.but(aggregated_status=(item("m1"), item("m2"))))
    _, after = run(job("web", status=moving()), well)
    assert phases(after) == {"web": "Done"}
    assert after.status.observed_workloads[0].after == moved.spec.clusters
    assert after.status.finish_time == NOON


def test_the_same_decision_again_is_no_change() -> None:
    same = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON, reschedule_triggered_at=NOON)
    assert phases(run(job("web", status=moving()), same)[1]) == {"web": "NoChange"}


def test_a_budget_that_says_no_is_told_and_waited_for() -> None:
    stuck = Condition(type="Stalled", status="True", reason="MoveBlocked", message="budget b: spent")
    waiting = binding(
        clusters={"m1": 2},
        reschedule_triggered_at=NOON,
        status_last_scheduled_time=NOON - MINUTE,
        status_conditions=(stuck,),
    )
    _, after = run(job("web", status=moving()), waiting)
    assert phases(after) == {"web": "Blocked"}
    assert after.status.observed_workloads[0].message == "budget b: spent"
    assert after.status.finish_time is None
    said = {c.type: (c.status, c.reason) for c in after.status.conditions}
    assert (said["Reconciling"], said["Stalled"][0]) == (("True", "Blocked"), "False")


def test_what_will_not_get_on_by_itself_is_stalled() -> None:
    nowhere = Condition(type="Scheduled", status="False", reason="NoClusterFit", message="no cluster fits")
    waiting = binding(
        clusters={"m1": 2},
        reschedule_triggered_at=NOON,
        status_last_scheduled_time=NOON - MINUTE,
        status_conditions=(nowhere,),
    )
    _, after = run(job("web", status=moving()), waiting)
    assert {c.type: (c.status, c.reason) for c in after.status.conditions}["Stalled"] == ("True", "NoClusterFit")


def test_cancelling_withdraws_what_has_not_begun() -> None:
    waiting = binding(clusters={"m1": 2}, reschedule_triggered_at=NOON, status_last_scheduled_time=NOON - MINUTE)
    wishes, after = run(job("web", status=moving(), cancel=True), waiting)
    (withdrawn,) = [wish for wish in wishes if isinstance(wish, Binding)]
    assert withdrawn.spec.reschedule_triggered_at is None
    assert phases(after) == {"web": "Cancelled"}


def test_what_succeeded_stays_listed_when_it_leaves_the_spec() -> None:
    done = moving(phase="Done")
    _, after = run(job("other", status=done, generation=2), binding("other", clusters={"m1": 1}))
    assert list(phases(after)) == ["other", "web"]


def finished(ttl: int) -> WorkloadRebalancer:
    _, after = run(job("web", status=moving(phase="Done"), ttl_seconds_after_finished=ttl), binding(clusters={"m1": 2}))
    return after


def test_it_is_deleted_when_its_time_is_over_and_only_as_it_was_seen() -> None:
    subject = finished(60)
    wishes, _ = run(subject, now=NOON + 30 * SECOND)
    assert [wish for wish in wishes if isinstance(wish, Again)] == [Again(30.0)]
    wishes, _ = run(subject, now=NOON + 60 * SECOND)
    assert [wish.revision for wish in wishes if isinstance(wish, Gone)] == ["4"]
    assert [wish.reason for wish in wishes if isinstance(wish, Note)] == ["TTLExpired"]


def test_another_ttl_counts_from_the_old_end() -> None:
    edited = finished(60)
    edited = edited.but(
        metadata=edited.metadata.but(generation=2), spec=edited.spec.but(ttl_seconds_after_finished=300)
    )
    _, after = run(edited, now=NOON + 30 * SECOND)
    assert (after.status.finish_time, after.status.observed_generation) == (NOON, 2)


def test_upstream_is_finished_when_the_stamp_is_written() -> None:
    wishes, after = run(job("web"), binding(clusters={"m1": 2}), profile=UPSTREAM)
    (stamped,) = [wish for wish in wishes if isinstance(wish, Binding)]
    assert stamped.spec.reschedule_triggered_at == NOON
    assert "trimtab.dev/asked-by" not in stamped.metadata.annotations
    (observed,) = after.status.observed_workloads
    assert (observed.result, observed.phase) == ("Successful", "")
    assert after.status.finish_time == NOON


HOUR = timedelta(hours=1)
EVERY_HOUR: dict[str, Any] = {"schedule": "0 * * * *"}


def a_round_that_is_over(at: datetime, **fields: Any) -> RebalancerStatus:
    return moving(phase="Done").but(last_schedule_time=at, finish_time=at + MINUTE, **fields)


def test_before_the_first_time_of_its_schedule_a_rebalancer_only_tells_it() -> None:
    wishes, after = run(job("web", **EVERY_HOUR), binding(clusters={"m1": 2}), now=NOON + MINUTE)
    assert (after.status.next_schedule_time, after.status.observed_workloads) == (NOON + HOUR, ())
    assert wishes[1:] == [Again(3540.0)]


def test_when_its_time_has_come_workloads_are_asked_for_as_of_that_time() -> None:
    wishes, after = run(job("web", **EVERY_HOUR), binding(clusters={"m1": 2}), now=NOON + HOUR + SECOND)
    (stamped,) = [wish for wish in wishes if isinstance(wish, Binding)]
    assert stamped.spec.reschedule_triggered_at == NOON + HOUR
    assert after.status.last_schedule_time == NOON + HOUR
    assert phases(after) == {"web": "Moving"}


def test_the_next_round_begins_with_a_clean_slate_and_looks_its_selectors_up_anew() -> None:
    selectors = (WorkloadSelector(api_version="apps/v1", kind="Deployment", label_selector=None),)
    done = job(status=a_round_that_is_over(NOON), selectors=selectors, **EVERY_HOUR)
    api, raws = binding("api", clusters={"m1": 2}), [deployment("api")]
    _, after = run(done, api, raws=raws, now=NOON + HOUR)
    assert phases(after) == {"api": "Moving"}
    _, still = run(done, api, raws=raws, now=NOON + HOUR - SECOND)
    assert phases(still) == {"web": "Done"}


def test_a_time_that_comes_while_a_round_goes_on_is_passed_over() -> None:
    going_on = job("web", status=moving().but(last_schedule_time=NOON), **EVERY_HOUR)
    busy = binding(clusters={"m1": 2}, reschedule_triggered_at=NOON)
    _, after = run(going_on, busy, now=NOON + HOUR + MINUTE)
    assert after.status.last_schedule_time == NOON
    late = moving(phase="Done").but(last_schedule_time=NOON, finish_time=NOON + HOUR + MINUTE)
    wishes, after = run(job("web", status=late, **EVERY_HOUR), busy, now=NOON + HOUR + 2 * MINUTE)
    assert after.status.last_schedule_time == NOON
    assert Again(58 * 60.0) in wishes


def test_of_many_times_that_were_missed_only_the_last_counts() -> None:
    missed = job("web", status=a_round_that_is_over(NOON), **EVERY_HOUR)
    _, after = run(missed, binding(clusters={"m1": 2}), now=NOON + 1000 * HOUR + MINUTE)
    assert after.status.last_schedule_time == NOON + 1000 * HOUR
    yearly = job("web", status=a_round_that_is_over(NOON), schedule="0 0 1 1 *")
    _, after = run(yearly, binding(clusters={"m1": 2}), now=NOON + timedelta(days=400))
    assert after.status.last_schedule_time is not None
    assert after.status.last_schedule_time.strftime("%m-%d") == "01-01"


def test_no_round_begins_while_it_is_suspended_or_after_it_was_cancelled() -> None:
    for spec in ({"suspend": True}, {"cancel": True}):
        done = job("web", status=a_round_that_is_over(NOON), **EVERY_HOUR, **spec)
        wishes, after = run(done, binding(clusters={"m1": 2}), now=NOON + HOUR)
        assert after.status.last_schedule_time == NOON
        assert after.status.next_schedule_time is None
        assert not [wish for wish in wishes if isinstance(wish, Again | Binding)]


def test_a_schedule_has_its_own_time_zone() -> None:
    night = job("web", schedule="30 1 * * *", time_zone="Asia/Tokyo")
    _, after = run(night, now=NOON)
    assert after.status.next_schedule_time is not None
    assert after.status.next_schedule_time.strftime("%H:%M") == "16:30"


def test_upstream_knows_no_schedule() -> None:
    wishes, _ = run(job("web", **EVERY_HOUR), binding(clusters={"m1": 2}), profile=UPSTREAM)
    assert [wish for wish in wishes if isinstance(wish, Binding)]


def test_who_has_no_schedule_any_more_asks_as_of_now() -> None:
    edited = job("web", "api", status=a_round_that_is_over(NOON), generation=2)
    wishes, after = run(edited, binding(clusters={"m1": 2}), binding("api", clusters={"m1": 2}), now=NOON + HOUR)
    (stamped,) = [wish for wish in wishes if isinstance(wish, Binding)]
    assert stamped.spec.reschedule_triggered_at == NOON + HOUR
    assert (after.status.last_schedule_time, after.status.next_schedule_time) == (None, None)
