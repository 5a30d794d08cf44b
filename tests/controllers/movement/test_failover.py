"""Application failover: eviction of workloads from clusters where they are unhealthy."""

from datetime import timedelta
from typing import Any

import pytest
from builders import NOON, binding, deployment, frozen, placement, status_item
from views import FakeView

from static_fleet import StaticFleet, serving_cluster
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.policy import (
    ApplicationFailoverBehavior,
    ApplicationPreConditions,
    DecisionConditions,
    FailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from trimtab.api.kinds.work import ActiveEviction, Binding, GracefulEvictionTask, UnhealthyCluster
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.controllers.contract import RecordEvent, RequeueAfter, WriteSequence
from trimtab.controllers.movement.failover import (
    FailoverTimers,
    clusters_to_evict,
    concerns_failover,
    failover,
    is_unhealthy,
    rollout_of,
    seconds_until_preconditions,
)
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.sandbox import run_script

SECOND = timedelta(seconds=1)
UNHEALTHY = UnhealthyCluster(cluster_name="m1", since=NOON - 30 * SECOND)


def web(*items: Any, clusters: Any = None, timers: tuple[UnhealthyCluster, ...] = (), **rules: Any) -> Binding:
    conditions = rules.pop("decision_conditions", DecisionConditions(toleration_seconds=30))
    extra = {key: rules.pop(key) for key in ("active_eviction_history", "graceful_eviction_tasks") if key in rules}
    application = ApplicationFailoverBehavior(decision_conditions=conditions).but(**rules)
    subject = binding(
        clusters=clusters or {"m1": 2},
        propagate_deps=True,
        failover=FailoverBehavior(application=application),
        placement=placement(),
        status_aggregated_status=items,
        status_unhealthy_clusters=timers,
        **extra,
    )
    return subject.but(status=subject.status.but(rollout=rollout_of(subject, FakeView(raws=[deployment()]))))


def reconcile(subject: Binding, *names: str, **options: Any) -> list[Any]:
    clusters = [serving_cluster(name) for name in names or ("m1", "m2")]
    profile = options.get("profile")
    interpreter = Interpreter.of(executor=run_script, profile=profile.name if profile else "trimtab")
    view = FakeView(
        clusters, fleet=StaticFleet(clusters), interpreter=interpreter, **{"raws": [deployment()], **options}
    )
    return list(failover(subject, view))


def binding_after(effects: list[Any]) -> Binding | None:
    found = [effect.steps[-1] if isinstance(effect, WriteSequence) else effect for effect in effects]
    return next((effect for effect in found if isinstance(effect, Binding)), None)


def test_the_first_unhealthy_status_only_starts_the_timer() -> None:
    effects = reconcile(web(status_item("m1", "Unhealthy")))
    found = binding_after(effects)
    assert found is not None
    assert found.status.unhealthy_clusters == (UnhealthyCluster(cluster_name="m1", since=NOON),)
    assert found.spec.graceful_eviction_tasks == ()
    assert [round(effect.seconds) for effect in effects if isinstance(effect, RequeueAfter)] == [30]


def test_after_the_toleration_the_cluster_is_evicted_blocked_and_logged_together() -> None:
    effects = reconcile(
        web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,), purge_mode="Graciously", grace_period_seconds=120)
    )
    (entry,) = [effect for effect in effects if isinstance(effect, Move)]
    assert (entry.spec.cause, entry.spec.from_) == ("ApplicationFailover", "m1")
    (steps,) = [effect.steps for effect in effects if isinstance(effect, WriteSequence)]
    assert steps[0].spec == web(status_item("m1", "Unhealthy"), purge_mode="Graciously", grace_period_seconds=120).spec
    found = steps[-1]
    (task,) = found.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.purge_mode, task.grace_period_seconds) == ("m1", "Gracefully", 120)
    assert task.clusters_before_failover == ("m1",)
    assert found.spec.active_eviction_history == (ActiveEviction(cluster_name="m1", creation_timestamp=NOON),)
    assert found.status.unhealthy_clusters == ()
    assert found.status.previous_placement is not None


def test_zero_toleration_evicts_at_once() -> None:
    rules = DecisionConditions(toleration_seconds=0)
    found = binding_after(reconcile(web(status_item("m1", "Unhealthy"), decision_conditions=rules)))
    assert found is not None
    assert found.spec.clusters == ()


def test_unknown_health_neither_starts_nor_resets_the_timer() -> None:
    assert binding_after(reconcile(web(status_item("m1", "Unknown"), timers=(UNHEALTHY,)))) is None
    found = binding_after(reconcile(web(status_item("m1", "Unknown"), timers=(UNHEALTHY,)), profile=UPSTREAM))
    assert found is not None
    assert found.status.unhealthy_clusters == ()


def test_unknown_health_counts_if_the_policy_lists_it() -> None:
    rules = DecisionConditions(toleration_seconds=30, healthy_state=("Unhealthy", "Unknown"))
    found = binding_after(reconcile(web(status_item("m1", "Unknown"), timers=(UNHEALTHY,), decision_conditions=rules)))
    assert found is not None
    assert found.spec.clusters == ()


def test_becoming_healthy_stops_the_timer() -> None:
    found = binding_after(reconcile(web(status_item("m1"), timers=(UNHEALTHY,))))
    assert found is not None
    assert found.status.unhealthy_clusters == ()


def test_the_timer_does_not_start_before_the_precondition_delay_is_over() -> None:
    pre = ApplicationPreConditions(delay_seconds=60)
    young = status_item("m1", "Unhealthy", creation_timestamp=NOON - 20 * SECOND)
    effects = reconcile(web(young, pre_conditions=pre))
    assert binding_after(effects) is None
    assert [round(effect.seconds) for effect in effects if isinstance(effect, RequeueAfter)] == [40]


def test_a_healthy_precondition_keeps_never_healthy_workloads_in_place() -> None:
    pre = ApplicationPreConditions(healthy_state="Healthy")
    assert binding_after(reconcile(web(status_item("m1", "Unhealthy"), pre_conditions=pre))) is None
    assert binding_after(reconcile(web(status_item("m1", "Unhealthy", settled=True), pre_conditions=pre))) is not None


def test_a_workload_with_nowhere_to_go_stays_and_reports_why() -> None:
    effects = reconcile(web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,)), "m1")
    found = binding_after(effects)
    assert found is not None
    assert found.spec.clusters == web(clusters={"m1": 2}).spec.clusters
    assert [c.reason for c in found.status.conditions if c.type == "Stalled"] == ["FailoverBlocked"]
    assert {effect.reason for effect in effects if isinstance(effect, RecordEvent)} == {"EvictionSkipped"}
    assert found.status.unhealthy_clusters == (UNHEALTHY,)


def test_clusters_are_evicted_one_at_a_time_and_all_at_once_upstream() -> None:
    both = (UNHEALTHY, UnhealthyCluster(cluster_name="m2", since=NOON - 30 * SECOND))
    items = (status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy"))
    found = binding_after(reconcile(web(*items, clusters={"m1": 2, "m2": 2}, timers=both), "m1", "m2", "m3"))
    assert found is not None
    assert [task.from_cluster for task in found.spec.graceful_eviction_tasks] == ["m1"]
    found = binding_after(
        reconcile(web(*items, clusters={"m1": 2, "m2": 2}, timers=both), "m1", "m2", "m3", profile=UPSTREAM)
    )
    assert found is not None
    assert len(found.spec.graceful_eviction_tasks) == 2


@pytest.mark.parametrize("profile", [TRIMTAB, UPSTREAM], ids=lambda profile: profile.name)
@pytest.mark.parametrize(("one_at_a_time", "evicted"), [(True, ["m1"]), (False, ["m1", "m2"])])
def test_only_the_switch_failover_one_cluster_at_a_time_decides_how_many_clusters_are_evicted(
    profile: Profile, one_at_a_time: bool, evicted: list[str]
) -> None:
    both = (UNHEALTHY, UnhealthyCluster(cluster_name="m2", since=NOON - 30 * SECOND))
    subject = web(
        status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy"), clusters={"m1": 2, "m2": 2}, timers=both
    )
    switched = profile.but(failover_one_cluster_at_a_time=one_at_a_time)
    effects = reconcile(subject, "m1", "m2", "m3", profile=switched)
    found = binding_after(effects)
    assert found is not None
    assert [task.from_cluster for task in found.spec.graceful_eviction_tasks] == evicted
    assert [target.name for target in found.spec.clusters] == [name for name in ("m1", "m2") if name not in evicted]
    logged = [effect.spec.from_ for effect in effects if isinstance(effect, Move)]
    assert logged == (evicted if profile.evict_only_with_target else [])


def test_of_several_evictions_each_is_checked_with_the_placement_after_the_ones_before_it() -> None:
    """Each of the two clusters could take what the other one has, but not when both are evicted."""
    both = (UNHEALTHY, UnhealthyCluster(cluster_name="m2", since=NOON - 30 * SECOND))
    subject = web(
        status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy"), clusters={"m1": 2, "m2": 2}, timers=both
    )
    found = binding_after(reconcile(subject, profile=TRIMTAB.but(failover_one_cluster_at_a_time=False)))
    assert found is not None
    assert [task.from_cluster for task in found.spec.graceful_eviction_tasks] == ["m1"]
    assert [target.name for target in found.spec.clusters] == ["m2"]


def test_a_cluster_that_is_being_left_is_not_evicted_again() -> None:
    task = GracefulEvictionTask(from_cluster="m1", producer="TaintManager", reason="TaintUntolerated")
    leaving = web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,), graceful_eviction_tasks=(task,))
    found = binding_after(reconcile(leaving))
    assert found is None or found.spec == leaving.spec


def test_the_timer_stops_while_the_workload_is_not_applied() -> None:
    found = binding_after(reconcile(web(status_item("m1", "Unhealthy", applied=False), timers=(UNHEALTHY,))))
    assert found is not None
    assert found.status.unhealthy_clusters == ()


def test_without_the_switch_no_cluster_waits_for_a_running_eviction() -> None:
    task = GracefulEvictionTask(
        from_cluster="m0",
        producer="resource-binding-application-failover-controller",
        reason="ApplicationFailure",
        clusters_before_failover=("m0", "m1"),
    )
    waiting = web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,), graceful_eviction_tasks=(task,))
    found = binding_after(reconcile(waiting, profile=TRIMTAB.but(failover_one_cluster_at_a_time=False)))
    assert found is not None
    assert [one.from_cluster for one in found.spec.graceful_eviction_tasks] == ["m0", "m1"]


def test_another_cluster_of_the_same_placement_waits_for_the_running_eviction() -> None:
    task = GracefulEvictionTask(
        from_cluster="m0",
        producer="resource-binding-application-failover-controller",
        reason="ApplicationFailure",
        clusters_before_failover=("m0", "m1"),
    )
    waiting = web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,), graceful_eviction_tasks=(task,))
    assert binding_after(reconcile(waiting)) is None


def test_purge_mode_never_suppresses_deletion() -> None:
    found = binding_after(reconcile(web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,), purge_mode="Never")))
    assert found is not None
    (task,) = found.spec.graceful_eviction_tasks
    assert (task.purge_mode, task.suppress_deletion, task.grace_period_seconds) == ("Never", True, None)


def test_preserved_state_is_copied_from_the_old_status() -> None:
    rules = StatePreservation(rules=(StatePreservationRule(alias_label_name="job-id", json_path="{.job.id}"),))
    unhealthy = status_item("m1", "Unhealthy", status={"job": {"id": "42"}})
    found = binding_after(
        reconcile(web(unhealthy, timers=(UNHEALTHY,), purge_mode="Directly", state_preservation=rules))
    )
    assert found is not None
    assert found.spec.graceful_eviction_tasks[0].preserved_label_state == {"job-id": "42"}


def test_eviction_waits_until_the_state_to_preserve_is_known() -> None:
    rules = StatePreservation(rules=(StatePreservationRule(alias_label_name="job-id", json_path="{.job.id}"),))
    unhealthy = status_item("m1", "Unhealthy", status={"job": {}})
    subject = web(unhealthy, timers=(UNHEALTHY,), purge_mode="Directly", state_preservation=rules)
    found = binding_after(reconcile(subject))
    assert found is not None
    assert found.spec.graceful_eviction_tasks == ()
    (stalled,) = [c for c in found.status.conditions if c.type == "Stalled"]
    assert "preserve as job-id" in stalled.message
    effects = reconcile(subject, profile=UPSTREAM)
    assert [effect for effect in effects if isinstance(effect, Binding) and effect.spec.graceful_eviction_tasks] == []
    assert any(isinstance(effect, RequeueAfter) for effect in effects)


def test_an_inactive_failover_reports_why_until_it_is_active() -> None:
    without_dependencies = web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,))
    without_dependencies = without_dependencies.but(spec=without_dependencies.spec.but(propagate_deps=False))
    found = binding_after(reconcile(without_dependencies))
    assert found is not None
    (condition,) = [c for c in found.status.conditions if c.type == "FailoverInactive"]
    assert (condition.status, condition.reason) == ("True", "HealthNotReported")
    assert reconcile(found) == []
    assert reconcile(without_dependencies, profile=UPSTREAM) == []
    active = binding_after(reconcile(found.but(spec=found.spec.but(propagate_deps=True))))
    assert active is not None
    assert [c.status for c in active.status.conditions if c.type == "FailoverInactive"] == ["False"]


def test_a_block_expires_and_zero_seconds_never_expire() -> None:
    entry = ActiveEviction(cluster_name="m1", creation_timestamp=NOON - 600 * SECOND)
    found = binding_after(reconcile(web(status_item("m1"), active_eviction_history=(entry,))))
    assert found is not None
    assert found.spec.active_eviction_history == ()
    kept = reconcile(web(status_item("m1"), active_eviction_history=(entry,), block_predecessor_seconds=0))
    assert binding_after(kept) is None
    effects = reconcile(web(status_item("m1"), active_eviction_history=(entry,), block_predecessor_seconds=660))
    assert [round(effect.seconds) for effect in effects if isinstance(effect, RequeueAfter)] == [60]


def with_rollout_age(subject: Binding, ago: timedelta) -> Binding:
    rollout = subject.status.rollout
    assert rollout is not None
    return subject.but(status=subject.status.but(rollout=rollout.but(since=NOON - ago)))


def test_a_changed_template_is_a_rollout_and_changed_replicas_are_not() -> None:
    subject = web(status_item("m1"))
    assert binding_after(reconcile(subject, raws=[deployment(replicas=9)])) is None
    changed = deployment()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
    found = binding_after(reconcile(subject, raws=[changed]))
    assert found is not None
    assert found.status.rollout is not None
    assert found.status.rollout.since == NOON


def test_a_recent_rollout_that_is_unhealthy_everywhere_blocks_failover() -> None:
    both = (status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy"))
    timers = tuple(UnhealthyCluster(cluster_name=name, since=NOON - 60 * SECOND) for name in ("m1", "m2"))
    subject = with_rollout_age(web(*both, clusters={"m1": 2, "m2": 2}, timers=timers), 90 * SECOND)
    effects = reconcile(subject, "m1", "m2", "m3")
    found = binding_after(effects)
    assert found is not None
    assert found.spec.graceful_eviction_tasks == ()
    (stalled,) = [c for c in found.status.conditions if c.type == "Stalled"]
    assert (stalled.reason, "template changed recently" in stalled.message) == ("FailoverBlocked", True)
    assert {effect.reason for effect in effects if isinstance(effect, RecordEvent)} == {"EvictionSkipped"}


def test_a_new_template_is_tolerated_anew_while_clusters_recover_one_after_the_other() -> None:
    mixed = (status_item("m1"), status_item("m2", "Unhealthy"))
    timer = UnhealthyCluster(cluster_name="m2", since=NOON - 300 * SECOND)
    subject = with_rollout_age(web(*mixed, clusters={"m1": 2, "m2": 2}, timers=(timer,)), 10 * SECOND)
    effects = reconcile(subject, "m1", "m2", "m3")
    assert binding_after(effects) is None
    assert [round(effect.seconds) for effect in effects if isinstance(effect, RequeueAfter)] == [20]


def test_an_old_or_partly_healthy_rollout_does_not_block_failover() -> None:
    timers = tuple(UnhealthyCluster(cluster_name=name, since=NOON - 60 * SECOND) for name in ("m1", "m2"))
    both = (status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy"))
    old = with_rollout_age(web(*both, clusters={"m1": 2, "m2": 2}, timers=timers), 600 * SECOND)
    mixed = (status_item("m1", "Unhealthy"), status_item("m2"))
    partly = with_rollout_age(web(*mixed, clusters={"m1": 2, "m2": 2}, timers=timers[:1]), 90 * SECOND)
    for subject in (old, partly):
        found = binding_after(reconcile(subject, "m1", "m2", "m3"))
        assert found is not None
        assert [task.from_cluster for task in found.spec.graceful_eviction_tasks] == ["m1"]


def test_bindings_without_rules_are_reconciled_only_to_clear_failover_state() -> None:
    with_rules = web()
    without_rules = with_rules.but(spec=with_rules.spec.but(failover=None), status=with_rules.status.but(rollout=None))
    assert concerns_failover(None, with_rules)
    assert not concerns_failover(with_rules, without_rules)
    assert concerns_failover(
        with_rules, without_rules.but(status=without_rules.status.but(unhealthy_clusters=(UNHEALTHY,)))
    )
    assert concerns_failover(with_rules, without_rules.but(status=with_rules.status))
    blocked = without_rules.spec.but(active_eviction_history=(ActiveEviction(cluster_name="m1"),))
    assert concerns_failover(with_rules, without_rules.but(spec=blocked))


def test_a_workload_that_is_being_deleted_is_not_evicted() -> None:
    subject = web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,))
    assert binding_after(reconcile(subject)) is not None
    assert reconcile(subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))) == []


def test_a_workload_whose_health_cannot_be_read_is_not_evicted() -> None:
    subject = web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,))
    unknown = subject.spec.resource.but(api_version="example.org/v1", kind="Machine")
    found = binding_after(reconcile(subject.but(spec=subject.spec.but(resource=unknown))))
    assert found is not None
    assert found.spec.graceful_eviction_tasks == ()
    assert any(condition.type == "FailoverInactive" for condition in found.status.conditions)


def test_a_block_of_a_cluster_that_left_the_fleet_is_forgotten() -> None:
    gone = ActiveEviction(cluster_name="m9", creation_timestamp=NOON)
    kept = ActiveEviction(cluster_name="m2", creation_timestamp=NOON)
    found = binding_after(reconcile(web(status_item("m1"), active_eviction_history=(gone, kept))))
    assert found is not None
    assert found.spec.active_eviction_history == (kept,)


@pytest.mark.parametrize("profile", [TRIMTAB, UPSTREAM])
def test_nothing_is_evicted_while_moves_are_frozen(profile: Profile) -> None:
    clusters = [serving_cluster("m1"), serving_cluster("m2")]
    interpreter = Interpreter.of(executor=run_script, profile=profile.name)
    view = FakeView(
        [*clusters, frozen()],
        fleet=StaticFleet(clusters),
        interpreter=interpreter,
        raws=[deployment()],
        profile=profile,
        now=NOON + 600 * SECOND,
    )
    effects = list(failover(web(status_item("m1", "Unhealthy"), timers=(UNHEALTHY,)), view))
    after = binding_after(effects)
    assert after is None or not after.spec.graceful_eviction_tasks
    assert not any(isinstance(effect, Move) for effect in effects)
    assert any(isinstance(effect, RequeueAfter) for effect in effects)


def test_an_object_that_is_not_applied_is_not_unhealthy() -> None:
    rules = ApplicationFailoverBehavior()
    assert is_unhealthy(status_item("m1", "Unhealthy"), rules)
    assert not is_unhealthy(status_item("m1", "Unhealthy", applied=False), rules)
    assert not is_unhealthy(status_item("m1", "Unknown"), rules)
    states = ApplicationFailoverBehavior(decision_conditions=DecisionConditions(healthy_state=("Unknown",)))
    assert is_unhealthy(status_item("m1", "Unknown"), states)
    assert not is_unhealthy(status_item("m1", "Unhealthy"), states)


def test_a_cluster_outside_the_placement_has_no_timer() -> None:
    effects = reconcile(web(status_item("m2", "Unhealthy"), clusters={"m1": 2}))
    after = binding_after(effects)
    assert after is None or after.status.unhealthy_clusters == ()


def test_preconditions_delay_the_timer() -> None:
    late = ApplicationFailoverBehavior(pre_conditions=ApplicationPreConditions(delay_seconds=60))
    view = FakeView()
    for ago, wait in ((59, 1.0), (60, None)):
        item = status_item("m1", "Unhealthy", creation_timestamp=NOON - ago * SECOND)
        assert seconds_until_preconditions(item, late, view) == wait
    assert seconds_until_preconditions(status_item("m1", "Unhealthy"), late, view) == 0.0
    settled = ApplicationFailoverBehavior(pre_conditions=ApplicationPreConditions(healthy_state=("Healthy",)))
    assert seconds_until_preconditions(status_item("m1", "Unhealthy"), settled, view) == 0.0
    assert seconds_until_preconditions(status_item("m1", "Unhealthy", settled=True), settled, view) is None
    free = ApplicationFailoverBehavior(pre_conditions=ApplicationPreConditions())
    assert seconds_until_preconditions(status_item("m1", "Unhealthy"), free, view) is None


def test_only_an_own_eviction_that_nobody_suspended_delays_that_of_the_next_cluster() -> None:
    own = "resource-binding-application-failover-controller"
    due = FailoverTimers((), ["m2"], [])
    for producer, suppressed, evicted in ((own, None, []), (own, True, ["m2"]), ("someone", None, ["m2"])):
        task = GracefulEvictionTask(
            from_cluster="m1", producer=producer, suppress_deletion=suppressed, clusters_before_failover=("m1", "m2")
        )
        subject = binding(clusters={"m2": 2}, graceful_eviction_tasks=(task,))
        assert clusters_to_evict(subject, due, FakeView()) == evicted
