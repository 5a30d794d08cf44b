"""Workloads that leave a cluster because they are unhealthy there: document 002, rule by rule."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, deployment, item, placement
from views import FakeView

from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster
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
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.contract import Again, Note, Steps
from trimtab.controllers.movement.failover import concerns_failover, failover, rollout_of
from trimtab.decide.fleet import Fleet
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.lua.sandbox import run_script
from trimtab.plugins import filters, scores
from trimtab.registry import discover

SECOND = timedelta(seconds=1)
ILL = UnhealthyCluster(cluster_name="m1", since=NOON - 30 * SECOND)


class Picture:
    def __init__(self, clusters: list[Cluster]) -> None:
        discover(filters)
        discover(scores)
        self.clusters = clusters

    def at(self, now: Any) -> Fleet[Cluster]:
        return Fleet.of(self.clusters, now=now)


def able(name: str) -> Cluster:
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    found = cluster(name)
    return found.but(status=found.status.but(api_enablements=enabled))


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


def seen(subject: Binding, *names: str, **options: Any) -> list[Any]:
    clusters = [able(name) for name in names or ("m1", "m2")]
    profile = options.get("profile")
    parts = {
        "fleet": Picture(clusters),
        "interpreter": Interpreter.of(executor=run_script, profile=profile.name if profile else "trimtab"),
    }
    return list(failover(subject, FakeView(clusters, parts=parts, **{"raws": [deployment()], **options})))


def after(wishes: list[Any]) -> Binding | None:
    found = [wish.steps[-1] if isinstance(wish, Steps) else wish for wish in wishes]
    return next((wish for wish in found if isinstance(wish, Binding)), None)


def test_the_first_sight_starts_the_clock_and_nothing_else() -> None:
    wishes = seen(web(item("m1", "Unhealthy")))
    found = after(wishes)
    assert found is not None
    assert found.status.unhealthy_clusters == (UnhealthyCluster(cluster_name="m1", since=NOON),)
    assert found.spec.graceful_eviction_tasks == ()
    assert [round(wish.seconds) for wish in wishes if isinstance(wish, Again)] == [30]


def test_after_the_tolerated_time_it_leaves_is_blocked_and_logged_in_one_go() -> None:
    wishes = seen(web(item("m1", "Unhealthy"), timers=(ILL,), purge_mode="Graciously", grace_period_seconds=120))
    (entry,) = [wish for wish in wishes if isinstance(wish, Move)]
    assert (entry.spec.cause, entry.spec.from_) == ("ApplicationFailover", "m1")
    (steps,) = [wish.steps for wish in wishes if isinstance(wish, Steps)]
    assert steps[0].spec == web(item("m1", "Unhealthy"), purge_mode="Graciously", grace_period_seconds=120).spec
    found = steps[-1]
    (task,) = found.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.purge_mode, task.grace_period_seconds) == ("m1", "Gracefully", 120)
    assert task.clusters_before_failover == ("m1",)
    assert found.spec.active_eviction_history == (ActiveEviction(cluster_name="m1", creation_timestamp=NOON),)
    assert found.status.unhealthy_clusters == ()
    assert found.status.previous_placement is not None


def test_toleration_zero_is_at_once() -> None:
    rules = DecisionConditions(toleration_seconds=0)
    found = after(seen(web(item("m1", "Unhealthy"), decision_conditions=rules)))
    assert found is not None
    assert found.spec.clusters == ()


def test_health_unknown_neither_counts_nor_resets() -> None:
    assert after(seen(web(item("m1", "Unknown"), timers=(ILL,)))) is None
    found = after(seen(web(item("m1", "Unknown"), timers=(ILL,)), profile=UPSTREAM))
    assert found is not None
    assert found.status.unhealthy_clusters == ()


def test_health_unknown_counts_when_the_policy_says_so() -> None:
    rules = DecisionConditions(toleration_seconds=30, healthy_state=("Unhealthy", "Unknown"))
    found = after(seen(web(item("m1", "Unknown"), timers=(ILL,), decision_conditions=rules)))
    assert found is not None
    assert found.spec.clusters == ()


def test_getting_healthy_stops_the_clock() -> None:
    found = after(seen(web(item("m1"), timers=(ILL,))))
    assert found is not None
    assert found.status.unhealthy_clusters == ()


def test_before_the_delay_is_over_the_clock_does_not_run() -> None:
    pre = ApplicationPreConditions(delay_seconds=60)
    young = item("m1", "Unhealthy", creation_timestamp=NOON - 20 * SECOND)
    wishes = seen(web(young, pre_conditions=pre))
    assert after(wishes) is None
    assert [round(wish.seconds) for wish in wishes if isinstance(wish, Again)] == [40]


def test_what_was_never_healthy_there_waits_when_that_is_a_precondition() -> None:
    pre = ApplicationPreConditions(healthy_state="Healthy")
    assert after(seen(web(item("m1", "Unhealthy"), pre_conditions=pre))) is None
    assert after(seen(web(item("m1", "Unhealthy", settled=True), pre_conditions=pre))) is not None


def test_with_nowhere_to_go_it_stays_and_says_why() -> None:
    wishes = seen(web(item("m1", "Unhealthy"), timers=(ILL,)), "m1")
    found = after(wishes)
    assert found is not None
    assert found.spec.clusters == web(clusters={"m1": 2}).spec.clusters
    assert [c.reason for c in found.status.conditions if c.type == "Stalled"] == ["FailoverBlocked"]
    assert {wish.reason for wish in wishes if isinstance(wish, Note)} == {"EvictionSkipped"}
    assert found.status.unhealthy_clusters == (ILL,)


def test_one_cluster_of_a_placement_at_a_time() -> None:
    both = (ILL, UnhealthyCluster(cluster_name="m2", since=NOON - 30 * SECOND))
    items = (item("m1", "Unhealthy"), item("m2", "Unhealthy"))
    found = after(seen(web(*items, clusters={"m1": 2, "m2": 2}, timers=both), "m1", "m2", "m3"))
    assert found is not None
    assert [task.from_cluster for task in found.spec.graceful_eviction_tasks] == ["m1"]
    found = after(seen(web(*items, clusters={"m1": 2, "m2": 2}, timers=both), "m1", "m2", "m3", profile=UPSTREAM))
    assert found is not None
    assert len(found.spec.graceful_eviction_tasks) == 2


def test_the_other_cluster_of_the_same_placement_waits_its_turn() -> None:
    task = GracefulEvictionTask(
        from_cluster="m0",
        producer="resource-binding-application-failover-controller",
        reason="ApplicationFailure",
        clusters_before_failover=("m0", "m1"),
    )
    waiting = web(item("m1", "Unhealthy"), timers=(ILL,), graceful_eviction_tasks=(task,))
    assert after(seen(waiting)) is None


def test_never_means_that_somebody_else_decides() -> None:
    found = after(seen(web(item("m1", "Unhealthy"), timers=(ILL,), purge_mode="Never")))
    assert found is not None
    (task,) = found.spec.graceful_eviction_tasks
    assert (task.purge_mode, task.suppress_deletion, task.grace_period_seconds) == ("Never", True, None)


def test_the_new_copy_is_told_what_the_old_one_said() -> None:
    rules = StatePreservation(rules=(StatePreservationRule(alias_label_name="job-id", json_path="{.job.id}"),))
    ill = item("m1", "Unhealthy", status={"job": {"id": "42"}})
    found = after(seen(web(ill, timers=(ILL,), purge_mode="Directly", state_preservation=rules)))
    assert found is not None
    assert found.spec.graceful_eviction_tasks[0].preserved_label_state == {"job-id": "42"}


def test_what_is_to_be_preserved_must_be_known_before_it_leaves() -> None:
    rules = StatePreservation(rules=(StatePreservationRule(alias_label_name="job-id", json_path="{.job.id}"),))
    ill = item("m1", "Unhealthy", status={"job": {}})
    subject = web(ill, timers=(ILL,), purge_mode="Directly", state_preservation=rules)
    found = after(seen(subject))
    assert found is not None
    assert found.spec.graceful_eviction_tasks == ()
    (stuck,) = [c for c in found.status.conditions if c.type == "Stalled"]
    assert "preserved as job-id" in stuck.message
    wishes = seen(subject, profile=UPSTREAM)
    assert [wish for wish in wishes if isinstance(wish, Binding) and wish.spec.graceful_eviction_tasks] == []
    assert any(isinstance(wish, Again) for wish in wishes)


def test_a_failover_that_cannot_be_says_why_until_it_can() -> None:
    apart = web(item("m1", "Unhealthy"), timers=(ILL,))
    apart = apart.but(spec=apart.spec.but(propagate_deps=False))
    found = after(seen(apart))
    assert found is not None
    (said,) = [c for c in found.status.conditions if c.type == "FailoverInactive"]
    assert (said.status, said.reason) == ("True", "CannotWatch")
    assert seen(found) == []
    assert seen(apart, profile=UPSTREAM) == []
    together = after(seen(found.but(spec=found.spec.but(propagate_deps=True))))
    assert together is not None
    assert [c.status for c in together.status.conditions if c.type == "FailoverInactive"] == ["False"]


def test_a_block_ends_after_its_time_and_zero_never_ends() -> None:
    entry = ActiveEviction(cluster_name="m1", creation_timestamp=NOON - 600 * SECOND)
    found = after(seen(web(item("m1"), active_eviction_history=(entry,))))
    assert found is not None
    assert found.spec.active_eviction_history == ()
    kept = seen(web(item("m1"), active_eviction_history=(entry,), block_predecessor_seconds=0))
    assert after(kept) is None
    wishes = seen(web(item("m1"), active_eviction_history=(entry,), block_predecessor_seconds=660))
    assert [round(wish.seconds) for wish in wishes if isinstance(wish, Again)] == [60]


def rolled_out(subject: Binding, ago: timedelta) -> Binding:
    rollout = subject.status.rollout
    assert rollout is not None
    return subject.but(status=subject.status.but(rollout=rollout.but(since=NOON - ago)))


def test_a_change_of_the_template_is_remembered_and_a_change_of_its_replicas_is_not() -> None:
    subject = web(item("m1"))
    assert after(seen(subject, raws=[deployment(replicas=9)])) is None
    changed = deployment()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
    found = after(seen(subject, raws=[changed]))
    assert found is not None
    assert found.status.rollout is not None
    assert found.status.rollout.since == NOON


def test_a_bad_roll_out_is_no_bad_cluster() -> None:
    both = (item("m1", "Unhealthy"), item("m2", "Unhealthy"))
    timers = tuple(UnhealthyCluster(cluster_name=name, since=NOON - 60 * SECOND) for name in ("m1", "m2"))
    subject = rolled_out(web(*both, clusters={"m1": 2, "m2": 2}, timers=timers), 90 * SECOND)
    wishes = seen(subject, "m1", "m2", "m3")
    found = after(wishes)
    assert found is not None
    assert found.spec.graceful_eviction_tasks == ()
    (stuck,) = [c for c in found.status.conditions if c.type == "Stalled"]
    assert (stuck.reason, "template changed lately" in stuck.message) == ("FailoverBlocked", True)
    assert {wish.reason for wish in wishes if isinstance(wish, Note)} == {"EvictionSkipped"}


def test_a_roll_out_is_not_to_blame_when_it_is_old_or_does_well_somewhere() -> None:
    timers = tuple(UnhealthyCluster(cluster_name=name, since=NOON - 60 * SECOND) for name in ("m1", "m2"))
    both = (item("m1", "Unhealthy"), item("m2", "Unhealthy"))
    old = rolled_out(web(*both, clusters={"m1": 2, "m2": 2}, timers=timers), 600 * SECOND)
    mixed = (item("m1", "Unhealthy"), item("m2"))
    partly = rolled_out(web(*mixed, clusters={"m1": 2, "m2": 2}, timers=timers[:1]), 90 * SECOND)
    for subject in (old, partly):
        found = after(seen(subject, "m1", "m2", "m3"))
        assert found is not None
        assert [task.from_cluster for task in found.spec.graceful_eviction_tasks] == ["m1"]


def test_bindings_without_rules_are_looked_at_only_to_clear_what_their_rules_left() -> None:
    ruled = web()
    unruled = ruled.but(spec=ruled.spec.but(failover=None), status=ruled.status.but(rollout=None))
    assert concerns_failover(None, ruled)
    assert not concerns_failover(ruled, unruled)
    assert concerns_failover(ruled, unruled.but(status=unruled.status.but(unhealthy_clusters=(ILL,))))
    assert concerns_failover(ruled, unruled.but(status=ruled.status))
    blocked = unruled.spec.but(active_eviction_history=(ActiveEviction(cluster_name="m1"),))
    assert concerns_failover(ruled, unruled.but(spec=blocked))
