"""Evictions because of NoExecute taints."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from builders import NOON, binding, cluster, placement, status_item
from views import FakeView

from plugins import clusters
from static_fleet import StaticFleet, serving_cluster
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, Taint, Toleration
from trimtab.api.kinds.disruption import (
    DisruptionPolicy,
    DisruptionPolicySpec,
    EvictionRate,
    Move,
    OutageThresholds,
)
from trimtab.api.kinds.policy import (
    ClusterFailoverBehavior,
    FailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from trimtab.api.kinds.work import Binding
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import RecordEvent, RememberInProcess, RequeueAfter, WriteSequence
from trimtab.controllers.movement.binding_moves import with_stalled_condition
from trimtab.controllers.movement.taint_eviction import (
    EVICTION_BLOCKED,
    EVICTION_SLOT,
    LAST_EVICTION_SLOT,
    LAST_STORM,
    STORM_COOLDOWN,
    affected_binding,
    applied_tolerations,
    bindings_in_tainted_cluster,
    eviction_rate_factor,
    eviction_slot,
    eviction_time,
    taint_eviction,
)

SECOND = timedelta(seconds=1)
NOT_READY_TAINT = "cluster.karmada.io/not-ready:NoExecute"


def reconcile(subject: Binding, *clusters: Cluster, **options: Any) -> list[Any]:
    things = [*clusters, *options.pop("things", [])]
    return list(taint_eviction(subject, FakeView(things, fleet=StaticFleet(list(clusters)), **options)))


def evicted_binding(effects: list[Any]) -> Binding | None:
    for effect in effects:
        if isinstance(effect, WriteSequence):
            assert isinstance(effect.steps[-1], Binding)
            return effect.steps[-1]
        if isinstance(effect, Binding) and effect.spec.graceful_eviction_tasks:
            return effect
    return None


def test_an_untolerated_taint_writes_a_move_and_then_evicts() -> None:
    effects = reconcile(binding(clusters={"m1": 3}), serving_cluster("m1", "x:NoExecute"), serving_cluster("m2"))
    kinds = [type(effect) for effect in effects if isinstance(effect, Move | WriteSequence)]
    assert kinds == [Move, WriteSequence]
    (entry,) = [effect for effect in effects if isinstance(effect, Move)]
    assert (entry.spec.cause, entry.spec.from_, entry.spec.replicas) == ("ClusterFailover", "m1", 3)
    after = evicted_binding(effects)
    assert after is not None
    assert after.spec.clusters == ()
    (task,) = after.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.replicas, task.reason) == ("m1", 3, "TaintUntolerated")
    assert task.creation_timestamp == NOON
    previous = after.status.previous_placement
    assert previous is not None
    assert [target.name for target in previous.clusters] == ["m1"]


def test_a_workload_with_nowhere_to_go_stays_and_reports_why() -> None:
    effects = reconcile(binding(clusters={"m1": 3}), serving_cluster("m1", "x:NoExecute"))
    assert evicted_binding(effects) is None
    (blocked,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert [c.reason for c in blocked.status.conditions if c.type == "Stalled"] == ["EvictionBlocked"]
    assert {effect.reason for effect in effects if isinstance(effect, RecordEvent)} == {"EvictionSkipped"}


def test_upstream_evicts_without_a_target() -> None:
    after = evicted_binding(
        reconcile(binding(clusters={"m1": 3}), serving_cluster("m1", "x:NoExecute"), profile=UPSTREAM)
    )
    assert after is not None
    assert after.status.previous_placement is None
    assert [task.creation_timestamp for task in after.spec.graceful_eviction_tasks] == [None]


def test_toleration_seconds_delay_the_eviction() -> None:
    tolerant = binding(clusters={"m1": 3})
    rule = placement(clusterTolerations=[{"key": "x", "operator": "Exists", "tolerationSeconds": 100}])
    marked = tolerant.metadata.annotations | {well_known.APPLIED_PLACEMENT: msgspec.json.encode(rule).decode()}
    tolerant = tolerant.but(metadata=tolerant.metadata.but(annotations=marked))
    effects = reconcile(tolerant, serving_cluster("m1", "x:NoExecute"), serving_cluster("m2"))  # tainted a minute ago
    assert effects == [RequeueAfter(40.0)]
    assert (
        evicted_binding(
            reconcile(tolerant, serving_cluster("m1", "x:NoExecute"), serving_cluster("m2"), now=NOON + 40 * SECOND)
        )
        is not None
    )


def test_toleration_seconds_count_for_every_taint_they_tolerate() -> None:
    marked = [Taint(key=key, effect="NoExecute", time_added=NOON - ago * SECOND) for key, ago in (("x", 90), ("y", 5))]
    unlimited, limited = Toleration(key="x", operator="Exists"), Toleration(operator="Exists", toleration_seconds=100)
    assert eviction_time(marked, (unlimited, limited), NOON) == NOON + 10 * SECOND
    assert eviction_time(marked[:1], (unlimited, limited), NOON) is None


def fleet_with(not_ready: int, total: int) -> list[Cluster]:
    clusters = [serving_cluster(f"m{n:02}", NOT_READY_TAINT, ready="False") for n in range(not_ready)]
    return [*clusters, *(serving_cluster(f"m{n:02}") for n in range(not_ready, total))]


def test_one_cluster_of_forty_is_evacuated_and_thirty_of_forty_are_not() -> None:
    subject = binding(clusters={"m00": 2})
    assert evicted_binding(reconcile(subject, *fleet_with(1, 40))) is not None
    effects = reconcile(subject, *fleet_with(30, 40))
    assert evicted_binding(effects) is None
    assert [effect.reason for effect in effects if isinstance(effect, RecordEvent)] == ["EvictionStopped"]


def test_many_clusters_that_are_not_ready_slow_evictions_down() -> None:
    view = FakeView(fleet_with(15, 40), fleet=StaticFleet(fleet_with(15, 40)))
    view.memory[LAST_EVICTION_SLOT, None] = NOON
    effects = list(taint_eviction(binding(clusters={"m00": 2}), view))
    (requeue,) = [effect for effect in effects if isinstance(effect, RequeueAfter)]
    assert 6 < requeue.seconds < 7  # a tenth of 1.5 a second
    (event,) = [effect for effect in effects if isinstance(effect, RecordEvent)]
    assert (event.reason, event.message) == (
        "EvictionSlowed",
        "15 of 40 clusters are not ready at once; evictions slow down.",
    )


def test_storm_thresholds_come_from_the_policy() -> None:
    policy = DisruptionPolicy(
        metadata=Meta(name="default"), spec=DisruptionPolicySpec(storm=OutageThresholds(stop_above="90%"))
    )
    assert evicted_binding(reconcile(binding(clusters={"m00": 2}), *fleet_with(30, 40), things=[policy])) is not None


@pytest.mark.parametrize(
    ("not_ready", "total", "rate_factor"),
    [(1, 2, 1), (2, 3, 1), (2, 4, 1), (3, 4, 0.1), (4, 5, 0), (6, 10, 0.1), (7, 10, 0)],
)
def test_a_few_clusters_that_are_not_ready_are_no_storm_in_a_small_fleet(
    not_ready: int, total: int, rate_factor: float
) -> None:
    clusters = fleet_with(not_ready, total)
    assert eviction_rate_factor(clusters[0], FakeView(clusters)) == rate_factor


def test_the_minimum_size_of_a_storm_comes_from_the_policy() -> None:
    policy = DisruptionPolicy(
        metadata=Meta(name="default"), spec=DisruptionPolicySpec(storm=OutageThresholds(min_unready_clusters=1))
    )
    clusters = fleet_with(2, 3)
    assert eviction_rate_factor(clusters[0], FakeView([*clusters, policy])) == 0.1


def test_a_taint_set_by_a_user_is_no_storm() -> None:
    clusters = [serving_cluster(f"m{n}", "x:NoExecute", ready="False") for n in range(3)]
    assert evicted_binding(reconcile(binding(clusters={"m0": 2}), *clusters, serving_cluster("m9"))) is not None


def test_evictions_are_spaced_by_the_eviction_rate() -> None:
    clusters = [serving_cluster("m1", "x:NoExecute"), serving_cluster("m2")]
    view = FakeView(clusters, fleet=StaticFleet(clusters), settings={"eviction-rate": 2})
    view.memory[LAST_EVICTION_SLOT, None] = NOON
    (requeue,) = [
        effect for effect in taint_eviction(binding(clusters={"m1": 2}), view) if isinstance(effect, RequeueAfter)
    ]
    assert requeue.seconds == 0.5


def test_eviction_waits_until_the_state_to_preserve_is_known() -> None:
    rules = StatePreservation(rules=(StatePreservationRule(alias_label_name="job", json_path="{.jobs[*].id}"),))
    behaviour = FailoverBehavior(cluster=ClusterFailoverBehavior(purge_mode="Directly", state_preservation=rules))
    fleet = (serving_cluster("m1", "x:NoExecute"), serving_cluster("m2"))
    without_state = binding(clusters={"m1": 3}, failover=behaviour)
    effects = reconcile(without_state, *fleet)
    assert evicted_binding(effects) is None
    assert any("preserve as job" in effect.message for effect in effects if isinstance(effect, RecordEvent))
    assert evicted_binding(reconcile(without_state, *fleet, profile=UPSTREAM)) is None
    reported = status_item("m1", status={"jobs": [{"id": 7}, {"id": "b"}]})
    evicted = evicted_binding(
        reconcile(without_state.but(status=without_state.status.but(aggregated_status=(reported,))), *fleet)
    )
    assert evicted is not None
    assert evicted.spec.graceful_eviction_tasks[0].preserved_label_state == {"job": "7 b"}


def test_a_binding_is_woken_by_placement_or_toleration_changes_and_not_by_its_status() -> None:
    before = binding(clusters={"m1": 1})
    other_status = before.but(status=before.status.but(aggregated_status=(status_item("m1"),)))
    tolerant = before.but(metadata=before.metadata.but(annotations={well_known.APPLIED_PLACEMENT: '{"x":1}'}))
    blocked = with_stalled_condition(before, EVICTION_BLOCKED, "nowhere to go", NOON)

    def is_woken(old: Binding | None, new: Binding, *clusters: Cluster) -> bool:
        return bool(list(affected_binding(old, new, FakeView(clusters))))

    not_ready, untainted = cluster("m1", NOT_READY_TAINT), cluster("m1")
    assert is_woken(None, before, not_ready)
    assert is_woken(binding(clusters={"m2": 1}), before, not_ready)
    assert is_woken(before, tolerant, not_ready)
    assert not is_woken(before, other_status, not_ready)
    assert not is_woken(None, before, untainted)
    assert not is_woken(before, binding(clusters={"m2": 1}), not_ready)
    assert is_woken(before, blocked, untainted)


def test_a_tainted_cluster_that_appears_late_wakes_its_bindings() -> None:
    placed = binding(clusters={"m1": 1})
    assert list(affected_binding(None, placed, FakeView())) == []
    not_ready = cluster("m1", NOT_READY_TAINT)
    assert list(bindings_in_tainted_cluster(None, not_ready, FakeView([placed, not_ready]))) == [key_of(placed)]


@pytest.mark.parametrize("days", [100, -100])
def test_setting_the_clock_changes_neither_the_eviction_rate_nor_the_end_of_a_storm(days: int) -> None:
    clusters = [serving_cluster("m1", "x:NoExecute"), serving_cluster("m2")]
    view = FakeView(
        clusters,
        fleet=StaticFleet(clusters),
        settings={"eviction-rate": 2},
        now=NOON + timedelta(days=days),
    )
    view.steady_now = NOON
    view.memory[LAST_EVICTION_SLOT, None] = NOON
    (requeue,) = [
        effect for effect in taint_eviction(binding(clusters={"m1": 2}), view) if isinstance(effect, RequeueAfter)
    ]
    assert requeue.seconds == 0.5
    outage = FakeView(fleet_with(1, 40), now=NOON + timedelta(days=days))
    for seconds, factor in ((1, 0.0), (3600, 1.0)):
        outage.steady_now = NOON + timedelta(seconds=seconds)
        outage.memory[LAST_STORM, None] = NOON
        assert eviction_rate_factor(fleet_with(1, 40)[0], outage) == factor


def test_while_clusters_recover_from_a_storm_the_last_ones_are_not_evacuated() -> None:
    subject, storm, last = binding(clusters={"m00": 2}), fleet_with(30, 40), fleet_with(1, 40)
    view = FakeView(storm, fleet=StaticFleet(storm))
    view.memory.keep([effect for effect in taint_eviction(subject, view) if isinstance(effect, RememberInProcess)])
    later = FakeView(last, fleet=StaticFleet(last), now=NOON + 10 * SECOND)
    later.memory = view.memory
    assert evicted_binding(list(taint_eviction(subject, later))) is None
    calm = FakeView(last, fleet=StaticFleet(last), now=NOON + STORM_COOLDOWN + SECOND)
    calm.memory = view.memory
    assert evicted_binding(list(taint_eviction(subject, calm))) is not None


def test_nothing_is_evicted_while_failover_is_switched_off_or_the_workload_is_deleted() -> None:
    clusters = serving_cluster("m1", "x:NoExecute"), serving_cluster("m2")
    subject = binding(clusters={"m1": 3})
    assert reconcile(subject, *clusters, settings={"failover": False}) == []
    assert reconcile(subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON)), *clusters) == []


def test_a_slot_that_was_booked_is_kept() -> None:
    """Otherwise each reconcile would book a later one, and nothing would ever be evicted."""
    subject, tainted = binding(clusters={"m1": 3}), serving_cluster("m1", NOT_READY_TAINT)
    view = FakeView([tainted])
    view.memory[LAST_EVICTION_SLOT, None] = NOON + timedelta(hours=1)
    assert eviction_slot(subject, 1.0, view) > NOON + timedelta(hours=1)
    view.memory[EVICTION_SLOT, well_known.ref_of(subject)] = NOON
    assert eviction_slot(subject, 1.0, view) == NOON


def test_taints_that_a_user_sets_are_not_slowed_down_by_a_storm() -> None:
    down = [serving_cluster(f"m{n}", ready="False") for n in range(10)]
    view = FakeView(down)
    assert eviction_rate_factor(serving_cluster("m0", NOT_READY_TAINT), view) == 0.0
    assert eviction_rate_factor(serving_cluster("m0", NOT_READY_TAINT, "mine:NoExecute"), view) == 1.0


def test_an_eviction_in_an_earlier_slot_does_not_give_later_slots_away_again() -> None:
    clusters = [serving_cluster("m1", "x:NoExecute"), serving_cluster("m2")]
    subject = binding(clusters={"m1": 2})
    view = FakeView(clusters, fleet=StaticFleet(clusters), settings={"eviction-rate": 2})
    view.memory[EVICTION_SLOT, well_known.ref_of(subject)] = NOON
    view.memory[LAST_EVICTION_SLOT, None] = NOON + SECOND
    effects = list(taint_eviction(subject, view))
    assert evicted_binding(effects) is not None
    last = [e.value for e in effects if isinstance(e, RememberInProcess) and e.topic == LAST_EVICTION_SLOT]
    assert last == [NOON + SECOND]


def test_unreadable_applied_placement_has_no_tolerations() -> None:
    one = clusters.binding()
    for text in ("{", '{"a":' * 50_000, "5"):
        noted = one.but(metadata=one.metadata.but(annotations={well_known.APPLIED_PLACEMENT: text}))
        assert applied_tolerations(noted) is None


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_taints_of_other_effects_evict_nothing(effect: str) -> None:
    tainted, free = serving_cluster("m1", f"x:{effect}"), serving_cluster("m2")
    assert reconcile(binding(clusters={"m1": 3}), tainted, free) == []
    subject = binding(clusters={"m1": 3})
    view = FakeView([subject, tainted])
    assert list(bindings_in_tainted_cluster(serving_cluster("m1"), tainted, view)) == []
    assert list(affected_binding(None, subject, view)) == []


def test_a_change_of_taints_concerns_the_bindings_of_the_cluster() -> None:
    subject, other = binding(clusters={"m1": 3}), binding("other", clusters={"m2": 3})
    view = FakeView([subject, other])
    free, tainted = serving_cluster("m1"), serving_cluster("m1", "x:NoExecute")
    for old, new, concerned in (
        (free, tainted, True),
        (None, tainted, True),
        (tainted, free, True),
        (tainted, tainted, False),
        (None, free, False),
        (tainted, None, False),
    ):
        keys = list(bindings_in_tainted_cluster(old, new, view))
        assert keys == ([key_of(subject)] if concerned else [])


def test_the_toleration_of_one_taint_says_nothing_about_another() -> None:
    """Its seconds count for the taints that it tolerates only."""
    late = Taint(key="x", effect="NoExecute", time_added=NOON)
    early = Taint(key="y", effect="NoExecute", time_added=NOON - timedelta(hours=1))
    limited = Toleration(key="x", operator="Exists", toleration_seconds=60)
    always = Toleration(key="y", operator="Exists")
    assert eviction_time([late, early], (limited, always), NOON) == NOON + timedelta(seconds=60)
    assert eviction_time([early], (limited, always), NOON) is None
    assert eviction_time([late], (limited.but(toleration_seconds=-5),), NOON) == NOON
    unknown_since = late.but(time_added=None)
    assert eviction_time([unknown_since], (limited,), NOON) == NOON + timedelta(seconds=60)


def test_slots_are_spaced_by_the_rate_and_never_in_the_past() -> None:
    subject, tainted = binding(clusters={"m1": 3}), serving_cluster("m1", "x:NoExecute")
    rated = DisruptionPolicy(
        metadata=Meta(name="default"), spec=DisruptionPolicySpec(eviction_rate=EvictionRate(per_second=2))
    )
    view = FakeView([subject, tainted, rated])
    assert eviction_slot(subject, 1.0, view) == NOON
    view.memory[LAST_EVICTION_SLOT, None] = NOON
    assert eviction_slot(subject, 1.0, view) == NOON + SECOND / 2
    view.memory[LAST_EVICTION_SLOT, None] = NOON - 60 * SECOND
    assert eviction_slot(subject, 1.0, view) == NOON


def test_a_rate_of_zero_spaces_nothing() -> None:
    subject, tainted = binding(clusters={"m1": 3}), serving_cluster("m1", "x:NoExecute")
    view = FakeView([subject, tainted], settings={"eviction-rate": 0})
    view.memory[LAST_EVICTION_SLOT, None] = NOON
    assert eviction_slot(subject, 1.0, view) == NOON


def test_the_calm_after_a_storm_is_over_after_its_time() -> None:
    tainted = serving_cluster("m1", NOT_READY_TAINT)
    view = FakeView([tainted])
    for ago, factor in ((STORM_COOLDOWN - SECOND, 0.0), (STORM_COOLDOWN, 1.0)):
        view.memory[LAST_STORM, None] = NOON - ago
        assert eviction_rate_factor(tainted, view) == factor
    view.memory[LAST_STORM, None] = NOON
    view.profile = UPSTREAM
    assert eviction_rate_factor(tainted, view) == 1.0


def test_another_obstacle_is_an_event_of_its_own() -> None:
    subject = with_stalled_condition(binding(clusters={"m1": 3}), "MoveBlocked", "another reason", NOON)
    effects = reconcile(subject, serving_cluster("m1", "x:NoExecute"))
    assert {effect.reason for effect in effects if isinstance(effect, RecordEvent)} == {"EvictionSkipped"}
    (blocked,) = [effect for effect in effects if isinstance(effect, Binding)]
    again = reconcile(blocked, serving_cluster("m1", "x:NoExecute"))
    assert not [effect for effect in again if isinstance(effect, RecordEvent | Binding)]
