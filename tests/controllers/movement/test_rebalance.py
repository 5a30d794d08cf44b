"""WorkloadRebalancers from the request to the end of the moves."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from builders import MINUTE, NOON, binding, deployment, status_item
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.rebalancer import (
    ObservedWorkload,
    RebalancerSpec,
    RebalancerStatus,
    WorkloadRebalancer,
    WorkloadReference,
    WorkloadSelector,
)
from trimtab.api.kinds.work import Binding, HeldReplicas, TargetCluster
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta
from trimtab.controllers.contract import Delete, RecordEvent, RequeueAfter
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement import rebalance as rebalance_module
from trimtab.controllers.movement.rebalance import last_due_time, rebalance, withdraw_requests

SECOND = timedelta(seconds=1)


def ref(name: str) -> WorkloadReference:
    return WorkloadReference(api_version="apps/v1", kind="Deployment", namespace="demo", name=name)


def job(*names: str, status: RebalancerStatus | None = None, generation: int = 1, **spec: Any) -> WorkloadRebalancer:
    return WorkloadRebalancer(
        metadata=Meta(name="job", resource_version="4", generation=generation, creation_timestamp=NOON),
        spec=RebalancerSpec(workloads=tuple(map(ref, names))).but(**spec),
        status=status or RebalancerStatus(),
    )


def reconcile(subject: WorkloadRebalancer, *things: Any, **options: Any) -> tuple[list[Any], WorkloadRebalancer]:
    effects = list(rebalance(subject, FakeView(things, **options)))
    after = [effect for effect in effects if isinstance(effect, WorkloadRebalancer)]
    return effects, after[-1] if after else subject


def phases(subject: WorkloadRebalancer) -> dict[str, str]:
    return {i.workload.name: i.phase for i in subject.status.observed_workloads}


def moving(name: str = "web", **fields: Any) -> RebalancerStatus:
    before = (TargetCluster(name="m1", replicas=2),)
    fields = {"phase": "Moving", "result": "Successful", "before": before, "triggered_at": NOON, **fields}
    return RebalancerStatus(
        observed_workloads=(ObservedWorkload(workload=ref(name)).but(**fields),), observed_generation=1
    )


def test_the_request_time_is_after_the_last_decision_and_names_the_rebalancer() -> None:
    busy = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON + MINUTE)
    effects, after = reconcile(job("web"), busy)
    (requested,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert requested.spec.reschedule_triggered_at == NOON + MINUTE + SECOND
    assert "job" in requested.metadata.annotations["trimtab.dev/reschedule-request"]
    (observed,) = after.status.observed_workloads
    assert (observed.result, observed.phase) == ("Successful", "Moving")
    assert observed.before == busy.spec.clusters
    assert after.status.finish_time is None


def test_rebalance_of_a_workload_without_a_binding_fails_permanently() -> None:
    _, after = reconcile(job("ghost"))
    assert phases(after) == {"ghost": "Failed"}
    assert after.status.observed_workloads[0].reason == "ReferencedBindingNotFound"
    assert after.status.finish_time == NOON
    assert {c.type: c.status for c in after.status.conditions} == {
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
    }


def test_a_binding_of_another_api_group_does_not_match() -> None:
    other = binding(clusters={"m1": 2})
    other = other.but(spec=other.spec.but(resource=other.spec.resource.but(api_version="other.io/v1")))
    _, after = reconcile(job("web"), other)
    assert phases(after) == {"web": "Failed"}


def test_max_parallel_limits_concurrent_moves() -> None:
    things = [binding(name, clusters={"m1": 1}) for name in ("a", "b", "c")]
    _, after = reconcile(job("a", "b", "c", max_parallel=2), *things)
    assert phases(after) == {"a": "Moving", "b": "Moving", "c": "Pending"}


def test_active_moves_count_before_new_ones_begin() -> None:
    things = [binding(name, clusters={"m1": 1}) for name in ("a", "b")]
    status = moving("b", triggered_at=NOON + MINUTE)
    _, after = reconcile(job("a", "b", max_parallel=1, status=status), *things)
    assert phases(after)["a"] == "Pending"


def large_job(**fields: Any) -> WorkloadRebalancer:
    """A job whose 200 workloads have all been requested."""
    names = [f"web-{number:03}" for number in range(200)]
    observed = tuple(moving(name).observed_workloads[0] for name in names)
    status = RebalancerStatus(observed_workloads=observed, observed_generation=1)
    return job(*names, status=status, **{"max_parallel": 200, **fields})


def test_a_job_with_many_workloads_collects_changes_between_passes() -> None:
    view = FakeView([binding("web-000", clusters={"m1": 2})])
    view.memory.keep(rebalance(large_job(), view))
    view.now = view.steady_now = NOON + SECOND / 10
    assert list(rebalance(large_job(), view)) == [RequeueAfter(pytest.approx(0.1))]
    assert len(list(rebalance(large_job(generation=2, cancel=True), view))) > 1, "a changed spec is acted on at once"
    view.now = view.steady_now = NOON + SECOND / 5
    assert any(isinstance(effect, WorkloadRebalancer) for effect in rebalance(large_job(), view))


def test_a_job_with_few_workloads_acts_on_every_change() -> None:
    view = FakeView([binding("web", clusters={"m1": 2})])
    for _ in range(2):
        effects = list(rebalance(job("web"), view))
        view.memory.keep(effects)
        assert any(isinstance(effect, Binding) for effect in effects)


def test_a_pass_looks_at_each_workload_once(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[str] = []
    follow = rebalance_module.follow_workload

    def counting(subject: Any, item: ObservedWorkload, slots: int, view: Any) -> Any:
        followed.append(f"{item.workload.name} {slots}")
        return follow(subject, item, slots, view)

    monkeypatch.setattr(rebalance_module, "follow_workload", counting)
    things = [binding(name, clusters={"m1": 1}) for name in ("a", "b", "c")]
    status = moving("b", triggered_at=NOON + MINUTE)
    reconcile(job("a", "b", "c", max_parallel=2, status=status), *things)
    assert followed == ["a 1", "b 1", "c 0"], "the slots that are free without the workload itself"


def test_a_suspended_rebalancer_triggers_nothing() -> None:
    effects, after = reconcile(job("web", suspend=True), binding(clusters={"m1": 1}))
    assert phases(after) == {"web": "Pending"}
    assert not [effect for effect in effects if isinstance(effect, Binding)]


def test_selectors_are_evaluated_once_per_generation() -> None:
    selector = WorkloadSelector(
        api_version="apps/v1", kind="Deployment", label_selector=LabelSelector(match_labels={"a": "b"})
    )
    raws = [deployment("web", labels={"a": "b"}), deployment("other"), deployment("unbound", labels={"a": "b"})]
    things = [binding("web", clusters={"m1": 1}), binding("other", clusters={"m1": 1})]
    _, after = reconcile(job(selectors=(selector,)), *things, raws=raws)
    assert phases(after) == {"web": "Moving"}
    late = [*raws, deployment("late", labels={"a": "b"})]
    _, requeue = reconcile(after, *things, binding("late", clusters={"m1": 1}), raws=late)
    assert list(phases(requeue)) == ["web"]


def test_selectors_without_matches_are_not_reported_as_done() -> None:
    no_match = WorkloadSelector(api_version="apps/v1", kind="Deployment")
    _, after = reconcile(job(selectors=(no_match,)), raws=[])
    conditions = {c.type: (c.status, c.reason) for c in after.status.conditions}
    assert conditions["Ready"] == ("False", "NoWorkloadSelected")
    assert conditions["Stalled"] == ("True", "NoWorkloadSelected")
    assert after.status.finish_time == NOON


def test_an_item_is_done_when_the_placement_changed_and_is_healthy() -> None:
    moved = binding(clusters={"m1": 1, "m2": 1}, status_last_scheduled_time=NOON, reschedule_triggered_at=NOON)
    held = moved.but(status=moved.status.but(holds=(HeldReplicas(cluster="m1", replicas=1),)))
    assert phases(reconcile(job("web", status=moving()), held)[1]) == {"web": "Moving"}
    healthy = moved.but(status=moved.status.but(aggregated_status=(status_item("m1"), status_item("m2"))))
    _, after = reconcile(job("web", status=moving()), healthy)
    assert phases(after) == {"web": "Done"}
    assert after.status.observed_workloads[0].after == moved.spec.clusters
    assert after.status.finish_time == NOON


def test_an_unchanged_decision_ends_with_no_change() -> None:
    same = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON, reschedule_triggered_at=NOON)
    assert phases(reconcile(job("web", status=moving()), same)[1]) == {"web": "NoChange"}


def test_a_refusal_by_a_budget_is_reported_as_blocked_and_not_as_stalled() -> None:
    stalled = Condition(type="Stalled", status="True", reason="MoveBlocked", message="budget b: spent")
    waiting = binding(
        clusters={"m1": 2},
        reschedule_triggered_at=NOON,
        status_last_scheduled_time=NOON - MINUTE,
        status_conditions=(stalled,),
    )
    _, after = reconcile(job("web", status=moving()), waiting)
    assert phases(after) == {"web": "Blocked"}
    assert after.status.observed_workloads[0].message == "budget b: spent"
    assert after.status.finish_time is None
    conditions = {c.type: (c.status, c.reason) for c in after.status.conditions}
    assert (conditions["Reconciling"], conditions["Stalled"][0]) == (("True", "Blocked"), "False")


def test_an_unschedulable_workload_is_reported_as_stalled() -> None:
    unscheduled = Condition(type="Scheduled", status="False", reason="NoClusterFit", message="no cluster fits")
    waiting = binding(
        clusters={"m1": 2},
        reschedule_triggered_at=NOON,
        status_last_scheduled_time=NOON - MINUTE,
        status_conditions=(unscheduled,),
    )
    _, after = reconcile(job("web", status=moving()), waiting)
    assert {c.type: (c.status, c.reason) for c in after.status.conditions}["Stalled"] == ("True", "NoClusterFit")


def test_cancelling_withdraws_pending_requests() -> None:
    waiting = binding(clusters={"m1": 2}, reschedule_triggered_at=NOON, status_last_scheduled_time=NOON - MINUTE)
    effects, after = reconcile(job("web", status=moving(), cancel=True), waiting)
    (withdrawn,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert withdrawn.spec.reschedule_triggered_at is None
    assert phases(after) == {"web": "Cancelled"}


def test_successful_items_stay_listed_after_they_are_removed_from_the_spec() -> None:
    done = moving(phase="Done")
    _, after = reconcile(job("other", status=done, generation=2), binding("other", clusters={"m1": 1}))
    assert list(phases(after)) == ["other", "web"]


def finished(ttl: int) -> WorkloadRebalancer:
    _, after = reconcile(
        job("web", status=moving(phase="Done"), ttl_seconds_after_finished=ttl), binding(clusters={"m1": 2})
    )
    return after


def test_a_finished_rebalancer_is_deleted_after_its_ttl_with_a_revision_precondition() -> None:
    subject = finished(60)
    effects, _ = reconcile(subject, now=NOON + 30 * SECOND)
    assert [effect for effect in effects if isinstance(effect, RequeueAfter)] == [RequeueAfter(30.0)]
    effects, _ = reconcile(subject, now=NOON + 60 * SECOND)
    assert [effect.revision for effect in effects if isinstance(effect, Delete)] == ["4"]
    assert [effect.reason for effect in effects if isinstance(effect, RecordEvent)] == ["TTLExpired"]


def test_a_changed_ttl_counts_from_the_old_finish_time() -> None:
    edited = finished(60)
    edited = edited.but(
        metadata=edited.metadata.but(generation=2), spec=edited.spec.but(ttl_seconds_after_finished=300)
    )
    _, after = reconcile(edited, now=NOON + 30 * SECOND)
    assert (after.status.finish_time, after.status.observed_generation) == (NOON, 2)


def test_upstream_finishes_when_the_request_is_written() -> None:
    effects, after = reconcile(job("web"), binding(clusters={"m1": 2}), profile=UPSTREAM)
    (requested,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert requested.spec.reschedule_triggered_at == NOON
    assert "trimtab.dev/reschedule-request" not in requested.metadata.annotations
    (observed,) = after.status.observed_workloads
    assert (observed.result, observed.phase) == ("Successful", "")
    assert after.status.finish_time == NOON


def test_upstream_requests_at_the_creation_of_the_job_even_in_the_second_of_the_last_decision() -> None:
    scheduled = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON)
    effects, _ = reconcile(job("web"), scheduled, profile=UPSTREAM)
    (requested,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert requested.spec.reschedule_triggered_at == NOON


HOUR = timedelta(hours=1)
EVERY_HOUR: dict[str, Any] = {"schedule": "0 * * * *"}


def finished_run(at: datetime, **fields: Any) -> RebalancerStatus:
    return moving(phase="Done").but(last_schedule_time=at, finish_time=at + MINUTE, **fields)


def test_before_the_first_schedule_time_only_that_time_is_reported() -> None:
    effects, after = reconcile(job("web", **EVERY_HOUR), binding(clusters={"m1": 2}), now=NOON + MINUTE)
    assert (after.status.next_schedule_time, after.status.observed_workloads) == (NOON + HOUR, ())
    assert effects[1:] == [RequeueAfter(3540.0)]


def test_a_scheduled_run_requests_decisions_as_of_the_schedule_time() -> None:
    effects, after = reconcile(job("web", **EVERY_HOUR), binding(clusters={"m1": 2}), now=NOON + HOUR + SECOND)
    (requested,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert requested.spec.reschedule_triggered_at == NOON + HOUR
    assert after.status.last_schedule_time == NOON + HOUR
    assert phases(after) == {"web": "Moving"}


def test_the_next_run_starts_with_an_empty_status_and_evaluates_selectors_again() -> None:
    selectors = (WorkloadSelector(api_version="apps/v1", kind="Deployment", label_selector=None),)
    done = job(status=finished_run(NOON), selectors=selectors, **EVERY_HOUR)
    api, raws = binding("api", clusters={"m1": 2}), [deployment("api")]
    _, after = reconcile(done, api, raws=raws, now=NOON + HOUR)
    assert phases(after) == {"api": "Moving"}
    _, still = reconcile(done, api, raws=raws, now=NOON + HOUR - SECOND)
    assert phases(still) == {"web": "Done"}


def test_a_schedule_time_during_a_run_is_skipped() -> None:
    running = job("web", status=moving().but(last_schedule_time=NOON), **EVERY_HOUR)
    busy = binding(clusters={"m1": 2}, reschedule_triggered_at=NOON)
    _, after = reconcile(running, busy, now=NOON + HOUR + MINUTE)
    assert after.status.last_schedule_time == NOON
    late = moving(phase="Done").but(last_schedule_time=NOON, finish_time=NOON + HOUR + MINUTE)
    effects, after = reconcile(job("web", status=late, **EVERY_HOUR), busy, now=NOON + HOUR + 2 * MINUTE)
    assert after.status.last_schedule_time == NOON
    assert RequeueAfter(58 * 60.0) in effects


def test_of_several_missed_schedule_times_only_the_last_counts() -> None:
    missed = job("web", status=finished_run(NOON), **EVERY_HOUR)
    _, after = reconcile(missed, binding(clusters={"m1": 2}), now=NOON + 1000 * HOUR + MINUTE)
    assert after.status.last_schedule_time == NOON + 1000 * HOUR
    yearly = job("web", status=finished_run(NOON), schedule="0 0 1 1 *")
    _, after = reconcile(yearly, binding(clusters={"m1": 2}), now=NOON + timedelta(days=400))
    assert after.status.last_schedule_time is not None
    assert after.status.last_schedule_time.strftime("%m-%d") == "01-01"


def test_no_run_starts_while_suspended_or_after_cancellation() -> None:
    for spec in ({"suspend": True}, {"cancel": True}):
        done = job("web", status=finished_run(NOON), **EVERY_HOUR, **spec)
        effects, after = reconcile(done, binding(clusters={"m1": 2}), now=NOON + HOUR)
        assert after.status.last_schedule_time == NOON
        assert after.status.next_schedule_time is None
        assert not [effect for effect in effects if isinstance(effect, RequeueAfter | Binding)]


def test_a_schedule_is_evaluated_in_its_time_zone() -> None:
    nightly = job("web", schedule="30 1 * * *", time_zone="Asia/Tokyo")
    _, after = reconcile(nightly, now=NOON)
    assert after.status.next_schedule_time is not None
    assert after.status.next_schedule_time.strftime("%H:%M") == "16:30"


def test_upstream_ignores_the_schedule() -> None:
    effects, _ = reconcile(job("web", **EVERY_HOUR), binding(clusters={"m1": 2}), profile=UPSTREAM)
    assert [effect for effect in effects if isinstance(effect, Binding)]


def test_after_the_schedule_is_removed_requests_are_as_of_now() -> None:
    edited = job("web", "api", status=finished_run(NOON), generation=2)
    effects, after = reconcile(edited, binding(clusters={"m1": 2}), binding("api", clusters={"m1": 2}), now=NOON + HOUR)
    (requested,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert requested.spec.reschedule_triggered_at == NOON + HOUR
    assert (after.status.last_schedule_time, after.status.next_schedule_time) == (None, None)


@pytest.mark.parametrize(("days", "late"), [(100, 0), (-100, 0), (-100, 30)])
def test_schedule_goes_on_with_one_run_after_the_clock_was_set(days: int, late: int) -> None:
    nightly = job("web", schedule="0 12 * * *", status=RebalancerStatus(last_schedule_time=NOON))
    now = NOON + timedelta(days=days, seconds=late)
    assert last_due_time(nightly, FakeView(now=now)) == now - timedelta(seconds=late)
    assert last_due_time(nightly, FakeView(now=now - timedelta(hours=1))) == (
        None if days < 0 else now - timedelta(days=1)
    )


def test_a_request_of_another_rebalancer_is_not_taken_for_the_own_one() -> None:
    """It would be followed instead, and end with the move of the other one."""
    later = NOON + MINUTE
    for other, triggered_at in (("other", NOON), ("job", later)):
        requested = state.request(binding(clusters={"m1": 2}), later, "Rebalance", other)
        effects, after = reconcile(job("web"), requested)
        assert after.status.observed_workloads[0].triggered_at == triggered_at
        (written,) = [effect for effect in effects if isinstance(effect, Binding)]
        assert written.spec.reschedule_triggered_at == triggered_at
        assert binding_moves.reschedule_request_of(written).rebalancer == "job"


def test_a_deleted_rebalancer_withdraws_only_its_own_requests_that_are_not_answered() -> None:
    def requested(name: str, by: str, scheduled: datetime) -> Binding:
        subject = binding(name, clusters={"m1": 2}, status_last_scheduled_time=scheduled)
        return state.request(subject, NOON, "Rebalance", by)

    own, answered = requested("web", "job", NOON - MINUTE), requested("done", "job", NOON)
    view = FakeView([own, answered, requested("db", "other", NOON - MINUTE)])
    (written,) = withdraw_requests(key_of(job("web")), view)
    assert written == state.withdraw(own)


def test_a_rebalancer_whose_ttl_is_over_is_deleted_only_if_the_next_reconcile_still_finds_it_finished() -> None:
    """What has just changed is reported first: somebody may have added a workload."""
    ended = job("web", status=moving(), ttl_seconds_after_finished=0)
    there = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON)
    effects, after = reconcile(ended, there)
    assert after.status.finish_time == NOON
    assert not [effect for effect in effects if isinstance(effect, Delete)]
    effects, _ = reconcile(after, there)
    assert [effect for effect in effects if isinstance(effect, Delete)]


def progress(**fields: Any) -> tuple[str, str]:
    """Phase and reason of a workload that was to be moved at noon."""
    placed = fields.pop("clusters", {"m2": 2})
    items = tuple(status_item(name) for name in placed)
    stalled = fields.pop("stalled", "")
    last = fields.pop("last", NOON + SECOND)
    subject = binding(
        clusters=placed,
        reschedule_triggered_at=NOON,
        status_last_scheduled_time=last,
        status_aggregated_status=items,
        **fields,
    )
    subject = binding_moves.with_stalled_condition(subject, stalled, "why", NOON) if stalled else subject
    (observed,) = reconcile(job("web", status=moving()), subject)[1].status.observed_workloads
    return observed.phase, observed.reason


def test_a_workload_is_moved_when_the_decision_is_made_and_nothing_is_held_or_reverted() -> None:
    assert progress() == ("Done", "")
    assert progress(last=NOON) == ("Done", "")
    assert progress(last=None) == ("Moving", "")
    assert progress(status_holds=(HeldReplicas(cluster="m1", replicas=1),)) == ("Moving", "")
    assert progress(stalled="MoveReverted") == ("Failed", "MoveReverted")
    assert progress(stalled="EvictionBlocked") == ("Done", "")
    assert progress(clusters={"m1": 2}) == ("NoChange", "")
    assert progress(placement=None) == ("NoChange", "")


def test_a_deleted_rebalancer_requests_nothing() -> None:
    subject = job("web")
    deleted = subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    assert reconcile(deleted, binding(clusters={"m1": 2}))[0] == []


def test_a_cancelled_rebalancer_requests_nothing_and_withdraws_only_what_is_pending() -> None:
    effects, after = reconcile(job("web", cancel=True), binding(clusters={"m1": 2}))
    assert phases(after) == {"web": "Cancelled"}
    assert not [effect for effect in effects if isinstance(effect, Binding)]
    decided = binding(
        clusters={"m2": 2},
        reschedule_triggered_at=NOON,
        status_last_scheduled_time=NOON + SECOND,
        status_aggregated_status=(status_item("m2"),),
    )
    effects, after = reconcile(job("web", cancel=True, status=moving()), decided)
    assert phases(after) == {"web": "Done"}
    assert not [effect for effect in effects if isinstance(effect, Binding)]
    another = binding(
        clusters={"m2": 2}, reschedule_triggered_at=NOON + MINUTE, status_last_scheduled_time=NOON - MINUTE
    )
    effects, _ = reconcile(job("web", cancel=True, status=moving()), another)
    assert not [effect for effect in effects if isinstance(effect, Binding)], "another request has replaced it"


def test_upstream_requests_each_workload_once() -> None:
    fresh, requested = binding(clusters={"m1": 2}), binding(clusters={"m1": 2}, reschedule_triggered_at=NOON)
    earlier = binding(clusters={"m1": 2}, reschedule_triggered_at=NOON - SECOND)
    for subject, asked in ((fresh, True), (earlier, True), (requested, False)):
        effects, after = reconcile(job("web"), subject, profile=UPSTREAM)
        assert [item.result for item in after.status.observed_workloads] == ["Successful"]
        assert bool([effect for effect in effects if isinstance(effect, Binding)]) is asked
    _, missing = reconcile(job("ghost"), profile=UPSTREAM)
    assert [item.reason for item in missing.status.observed_workloads] == ["ReferencedBindingNotFound"]
    seen = RebalancerStatus(observed_workloads=(ObservedWorkload(workload=ref("web"), result="Successful"),))
    effects, _ = reconcile(job("web", status=seen), fresh, profile=UPSTREAM)
    assert not [effect for effect in effects if isinstance(effect, Binding)]


def test_a_workload_that_is_added_later_is_requested_at_that_time() -> None:
    subject = binding(clusters={"m1": 2}, status_last_scheduled_time=NOON - MINUTE)
    for generation, profile, at in ((1, TRIMTAB, NOON), (2, TRIMTAB, NOON + MINUTE), (2, UPSTREAM, NOON)):
        effects, _ = reconcile(job("web", generation=generation), subject, now=NOON + MINUTE, profile=profile)
        (requested,) = [effect for effect in effects if isinstance(effect, Binding)]
        assert requested.spec.reschedule_triggered_at == at


def test_upstream_records_no_events() -> None:
    for profile, recorded in ((TRIMTAB, True), (UPSTREAM, False)):
        effects, _ = reconcile(job("web"), binding(clusters={"m1": 2}), profile=profile)
        assert bool([effect for effect in effects if isinstance(effect, RecordEvent)]) is recorded
