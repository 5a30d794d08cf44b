"""Cluster status and taints from probes."""

from datetime import timedelta

import pytest
from builders import NOON, binding, cluster
from views import FakeView

from trimtab.api.kinds.cluster import Cluster, NodeSummary
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta
from trimtab.controllers.clusters.health import (
    HEARTBEAT,
    PROBE,
    STREAK,
    Probe,
    Streak,
    format_taints,
    health,
    is_settled_probe,
    ready_condition_of,
    seconds_until_evacuation,
    status_after_probe,
    taints_for,
)
from trimtab.controllers.conditions import find_condition, is_condition_true
from trimtab.controllers.contract import Delete, RecordEvent, RememberInProcess


def execution_namespace(name="m1"):
    return Namespace(metadata=Meta(name=f"karmada-es-{name}"))


def view(*things, probe=None, streak=None, **more) -> FakeView:
    snapshot = FakeView(things, **more)
    snapshot.memory[PROBE, "m1"] = probe
    snapshot.memory[STREAK, "m1"] = streak
    return snapshot


def reconcile(snapshot, subject):
    effects = list(health(subject, snapshot))
    return next((w for w in effects if isinstance(w, Cluster)), subject), effects


def healthy_probe(at=NOON):
    return Probe(at, online=True, healthy=True, version="v1.32.0", nodes=NodeSummary(total_num=2, ready_num=2))


def failed_probe(at=NOON):
    return Probe(at, online=False, healthy=False)


def test_a_joining_cluster_gets_a_namespace_and_a_not_ready_taint() -> None:
    new = cluster("m1", ready="")
    changed, effects = reconcile(view(new), new)
    assert isinstance(effects[0], Namespace)
    assert [t.key for t in changed.spec.taints] == ["cluster.karmada.io/not-ready"]


def test_the_first_successful_probe_clears_the_taint_at_once() -> None:
    new = cluster("m1", "cluster.karmada.io/not-ready:NoSchedule", ready="")
    changed, effects = reconcile(view(new, execution_namespace(), probe=healthy_probe()), new)
    assert is_condition_true(changed.status.conditions, "Ready")
    assert changed.status.kubernetes_version == "v1.32.0"
    assert changed.spec.taints == ()
    assert any(isinstance(w, RecordEvent) and "does not have taints" in w.message for w in effects)


def test_a_failed_probe_within_the_threshold_changes_nothing() -> None:
    ready = cluster("m1")
    changed, effects = reconcile(view(ready, execution_namespace(), probe=failed_probe()), ready)
    assert changed == ready
    (remembered,) = [w for w in effects if isinstance(w, RememberInProcess)]
    assert remembered.value == Streak("False", NOON)


def test_failed_probes_beyond_the_threshold_make_the_cluster_not_ready() -> None:
    ready = cluster("m1")
    snapshot = view(
        ready, execution_namespace(), probe=failed_probe(NOON), streak=Streak("False", NOON - timedelta(seconds=31))
    )
    changed, _ = reconcile(snapshot, ready)
    assert find_condition(changed.status.conditions, "Ready").reason == "ClusterNotReachable"
    assert [(t.key, t.effect) for t in changed.spec.taints] == [("cluster.karmada.io/not-ready", "NoSchedule")]


def test_a_cluster_that_stays_not_ready_gets_a_no_execute_taint_but_not_upstream() -> None:
    not_ready = cluster("m1", "cluster.karmada.io/not-ready:NoSchedule", ready="False")
    later = NOON + timedelta(seconds=300)
    changed, _ = reconcile(view(not_ready, execution_namespace(), probe=failed_probe(later), now=later), not_ready)
    assert ("cluster.karmada.io/not-ready", "NoExecute") in [(t.key, t.effect) for t in changed.spec.taints]
    same, _ = reconcile(
        view(not_ready, execution_namespace(), probe=failed_probe(later), now=later, profile=UPSTREAM), not_ready
    )
    assert same.spec == not_ready.spec


def test_a_pull_cluster_that_stops_reporting_is_unknown() -> None:
    silent = cluster("m1", sync_mode="Pull")
    snapshot = view(silent, execution_namespace())
    snapshot.memory[HEARTBEAT, "m1"] = NOON - timedelta(seconds=41)
    changed, _ = reconcile(snapshot, silent)
    assert find_condition(changed.status.conditions, "Ready").status == "Unknown"
    assert changed.spec.taints[0].key == "cluster.karmada.io/unreachable"


def test_an_agent_writes_nothing_about_clusters_that_it_does_not_serve() -> None:
    later = NOON + timedelta(hours=1)
    for mode in ("Push", "Pull"):
        for ready in ("True", "False", ""):
            other = cluster("m1", sync_mode=mode, ready=ready)
            other = other.but(metadata=other.metadata.but(creation_timestamp=NOON, finalizers=()))
            for subject in (other, deleting(other)):
                snapshot = view(subject, probe=failed_probe(later), now=later, settings={"agent": "m2"})
                assert list(health(subject, snapshot)) == []


def test_an_agent_writes_the_status_of_its_own_cluster_and_leaves_the_taints_to_the_control_plane() -> None:
    own = cluster("m1", sync_mode="Pull")
    streak = Streak("False", NOON - timedelta(seconds=31))
    snapshot = view(own, probe=failed_probe(), streak=streak, settings={"agent": "m1"})
    changed, effects = reconcile(snapshot, own)
    assert find_condition(changed.status.conditions, "Ready").status == "False"
    assert (changed.spec, changed.metadata) == (own.spec, own.metadata)
    assert not [w for w in effects if isinstance(w, Namespace | RecordEvent)]
    after, _ = reconcile(view(changed, execution_namespace()), changed)
    assert [t.key for t in after.spec.taints] == ["cluster.karmada.io/not-ready"]


def deleting(subject):
    return subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))


def test_upstream_a_deleted_cluster_waits_for_its_namespace_and_its_bindings() -> None:
    leaving = deleting(cluster("m1"))
    effects = list(health(leaving, view(leaving, execution_namespace(), profile=UPSTREAM)))
    assert isinstance(effects[0], Delete)
    assert [one.reason for one in effects if isinstance(one, RecordEvent)] == ["RemoveExecutionSpaceSucceed"]
    waiting = list(health(leaving, view(leaving, binding(clusters={"m1": 1}), profile=UPSTREAM)))
    assert not [w for w in waiting if isinstance(w, Cluster)]
    (released,) = health(leaving, view(leaving, profile=UPSTREAM))
    assert released.metadata.finalizers == ()


def test_a_cluster_that_is_drained_before_it_leaves_is_still_judged_by_its_probes() -> None:
    leaving = deleting(cluster("m1"))
    streak = Streak("False", NOON - timedelta(seconds=31))
    changed, effects = reconcile(view(leaving, probe=failed_probe(), streak=streak), leaving)
    assert find_condition(changed.status.conditions, "Ready").status == "False"
    assert changed.metadata == leaving.metadata
    assert not [w for w in effects if isinstance(w, Delete | Namespace)]


def test_taints_are_formatted_as_in_karmada_events() -> None:
    assert format_taints(cluster("m1", "a:NoSchedule").spec.taints) == (
        "Taint cluster succeed: cluster now has taints([{Key:a,Effect:NoSchedule}])."
    )


@pytest.mark.parametrize("days", [100, -100])
def test_setting_the_clock_makes_no_pull_cluster_silent_and_hides_none(days: int) -> None:
    pulled = cluster("m1", sync_mode="Pull")
    snapshot = view(pulled, execution_namespace(), now=NOON + timedelta(days=days))
    snapshot.steady_now = NOON
    snapshot.memory[HEARTBEAT, "m1"] = NOON - timedelta(seconds=5)
    assert reconcile(snapshot, pulled)[0] == pulled
    snapshot.memory[HEARTBEAT, "m1"] = NOON - timedelta(seconds=41)
    assert find_condition(reconcile(snapshot, pulled)[0].status.conditions, "Ready").status == "Unknown"


@pytest.mark.parametrize("days", [100, -100])
def test_setting_the_clock_neither_ends_nor_prolongs_a_streak_of_failed_probes(days: int) -> None:
    ready, later = cluster("m1"), NOON + timedelta(days=days)

    def probed(seconds: int) -> str:
        probe = failed_probe(later)._replace(steady_at=NOON + timedelta(seconds=seconds))
        snapshot = view(ready, execution_namespace(), probe=probe, streak=Streak("False", NOON), now=later)
        return find_condition(reconcile(snapshot, ready)[0].status.conditions, "Ready").status

    assert (probed(10), probed(31)) == ("True", "False")


def test_a_probe_that_says_nothing_new_needs_no_reconcile() -> None:
    ready = cluster("m1").but(metadata=Meta(name="m1", resource_version="7"))
    before = (healthy_probe().findings, "7")
    later = healthy_probe(NOON + timedelta(seconds=10))
    assert is_settled_probe(before, later, ready)
    assert not is_settled_probe(None, later, ready)
    assert not is_settled_probe((healthy_probe()._replace(version="v1.31.0").findings, "7"), later, ready)


def test_a_probe_of_a_cluster_that_has_changed_since_needs_a_reconcile() -> None:
    ready = cluster("m1").but(metadata=Meta(name="m1", resource_version="8"))
    assert not is_settled_probe((healthy_probe().findings, "7"), healthy_probe(), ready)


def test_probes_of_a_cluster_that_is_not_ready_need_a_reconcile_each() -> None:
    """Whether it becomes ready, or is evacuated, depends on how long that lasts."""
    lost = cluster("m1", ready="False").but(metadata=Meta(name="m1", resource_version="7"))
    assert not is_settled_probe((healthy_probe().findings, "7"), healthy_probe(), lost)
    ready = cluster("m1").but(metadata=Meta(name="m1", resource_version="7"))
    assert not is_settled_probe((failed_probe().findings, "7"), failed_probe(), ready)


NOT_READY, UNREACHABLE = "cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable"
DELAY = {"evacuate-after-seconds": 60}


def tainted(subject: Cluster, **more) -> list[tuple[str, str]]:
    return [(taint.key, taint.effect) for taint in taints_for(subject, FakeView(**more))]


def test_taints_follow_the_condition_and_those_of_users_stay() -> None:
    others = ("mine:NoExecute", "mine:NoSchedule")
    user = [("mine", "NoExecute"), ("mine", "NoSchedule")]
    never = {"settings": {"evacuate-after-seconds": 0}}
    dark = cluster("m1", *others, f"{UNREACHABLE}:NoSchedule", ready="False")
    assert tainted(dark, **never) == [*user, (NOT_READY, "NoSchedule")]
    silent = cluster("m1", *others, f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute", ready="Unknown")
    assert tainted(silent, **never) == [*user, (UNREACHABLE, "NoSchedule")]
    ready = cluster("m1", *others, f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute")
    assert tainted(ready, **never) == user


def test_a_cluster_that_stays_not_ready_is_evacuated_once() -> None:
    dark = cluster("m1", f"{NOT_READY}:NoSchedule", ready="False")  # for a minute
    both = [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    assert tainted(dark, settings=DELAY) == both
    assert tainted(dark, settings={"evacuate-after-seconds": 61}) == both[:1]
    assert (
        tainted(dark.but(spec=dark.spec.but(taints=taints_for(dark, FakeView(settings=DELAY)))), settings=DELAY) == both
    )


def test_only_a_cluster_that_is_not_ready_is_ever_evacuated() -> None:
    view_ = FakeView(settings=DELAY)
    assert seconds_until_evacuation(cluster("m1"), view_) is None
    assert seconds_until_evacuation(cluster("m1", ready=""), view_) is None
    dark = cluster("m1", ready="False")
    (condition,) = dark.status.conditions
    undated = dark.but(status=dark.status.but(conditions=(condition.but(last_transition_time=None),)))
    assert seconds_until_evacuation(undated, view_) is None
    assert seconds_until_evacuation(dark, FakeView(settings={"evacuate-after-seconds": 90})) == 30.0


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        (healthy_probe()._replace(reachable=False), "StatusCollectionFailed"),
        (healthy_probe()._replace(online=False), "ClusterNotReachable"),
        (healthy_probe()._replace(healthy=False), "ClusterNotReady"),
        (healthy_probe(), "ClusterReady"),
    ],
)
def test_every_failure_of_a_probe_makes_a_cluster_not_ready(probe: Probe, reason: str) -> None:
    condition = ready_condition_of(probe)
    assert (condition.reason, condition.status) == (reason, "True" if reason == "ClusterReady" else "False")


def test_a_streak_counts_only_probes_with_the_same_result() -> None:
    ready, threshold = cluster("m1"), {"settings": {"cluster-failure-threshold": 30}}
    for streak, published in (
        (Streak("False", NOON - timedelta(seconds=30)), "False"),
        (Streak("False", NOON - timedelta(seconds=29)), "True"),
        (Streak("True", NOON - timedelta(hours=1)), "True"),
    ):
        status, _ = status_after_probe(ready, view(probe=failed_probe(), streak=streak, **threshold))
        condition = find_condition(status.conditions, "Ready")
        assert condition is not None
        assert condition.status == published
