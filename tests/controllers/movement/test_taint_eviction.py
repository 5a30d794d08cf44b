"""Clusters that must be left, and when they are not."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from builders import NOON, binding, cluster, item, placement
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, Taint, Toleration
from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionPolicySpec, Move, Storm
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
from trimtab.controllers.contract import Again, Note, Steps
from trimtab.controllers.movement.binding_moves import stalled
from trimtab.controllers.movement.taint_eviction import (
    EVICTION_BLOCKED,
    eviction_time,
    leave,
    may_have_to_leave,
    pace_of,
    tainted_bindings,
)
from trimtab.decide.fleet import Fleet
from trimtab.plugins import filters, scores
from trimtab.registry import discover

SECOND = timedelta(seconds=1)
DARK = "cluster.karmada.io/not-ready:NoExecute"


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
    return found.but(status=found.status.but(api_enablements=enabled))


def seen(subject: Binding, *clusters: Cluster, **options: Any) -> list[Any]:
    things = [*clusters, *options.pop("things", [])]
    return list(leave(subject, FakeView(things, parts={"fleet": Picture(list(clusters))}, **options)))


def left_by(wishes: list[Any]) -> Binding | None:
    for wish in wishes:
        if isinstance(wish, Steps):
            assert isinstance(wish.steps[-1], Binding)
            return wish.steps[-1]
        if isinstance(wish, Binding) and wish.spec.graceful_eviction_tasks:
            return wish
    return None


def test_a_cluster_with_a_taint_nobody_tolerates_is_left_and_the_log_says_so_first() -> None:
    wishes = seen(binding(clusters={"m1": 3}), able("m1", "x:NoExecute"), able("m2"))
    kinds = [type(wish) for wish in wishes if isinstance(wish, Move | Steps)]
    assert kinds == [Move, Steps]
    (entry,) = [wish for wish in wishes if isinstance(wish, Move)]
    assert (entry.spec.cause, entry.spec.from_, entry.spec.replicas) == ("ClusterFailover", "m1", 3)
    after = left_by(wishes)
    assert after is not None
    assert after.spec.clusters == ()
    (task,) = after.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.replicas, task.reason) == ("m1", 3, "TaintUntolerated")
    previous = after.status.previous_placement
    assert previous is not None
    assert [target.name for target in previous.clusters] == ["m1"]


def test_with_nowhere_to_go_it_stays_and_says_why() -> None:
    wishes = seen(binding(clusters={"m1": 3}), able("m1", "x:NoExecute"))
    assert left_by(wishes) is None
    (stuck,) = [wish for wish in wishes if isinstance(wish, Binding)]
    assert [c.reason for c in stuck.status.conditions if c.type == "Stalled"] == ["EvictionBlocked"]
    assert {wish.reason for wish in wishes if isinstance(wish, Note)} == {"EvictionSkipped"}


def test_upstream_leaves_even_for_nowhere() -> None:
    after = left_by(seen(binding(clusters={"m1": 3}), able("m1", "x:NoExecute"), profile=UPSTREAM))
    assert after is not None
    assert after.status.previous_placement is None


def test_a_toleration_with_seconds_is_honoured() -> None:
    tolerant = binding(clusters={"m1": 3})
    rule = placement(clusterTolerations=[{"key": "x", "operator": "Exists", "tolerationSeconds": 100}])
    marked = tolerant.metadata.annotations | {well_known.APPLIED_PLACEMENT: msgspec.json.encode(rule).decode()}
    tolerant = tolerant.but(metadata=tolerant.metadata.but(annotations=marked))
    wishes = seen(tolerant, able("m1", "x:NoExecute"), able("m2"))  # tainted a minute ago
    assert wishes == [Again(40.0)]
    assert left_by(seen(tolerant, able("m1", "x:NoExecute"), able("m2"), now=NOON + 40 * SECOND)) is not None


def test_the_seconds_of_a_toleration_count_for_every_taint_that_it_tolerates() -> None:
    marked = [Taint(key=key, effect="NoExecute", time_added=NOON - ago * SECOND) for key, ago in (("x", 90), ("y", 5))]
    for_ever, a_while = Toleration(key="x", operator="Exists"), Toleration(operator="Exists", toleration_seconds=100)
    assert eviction_time(marked, (for_ever, a_while), NOON) == NOON + 10 * SECOND
    assert eviction_time(marked[:1], (for_ever, a_while), NOON) is None


def fleet_with(dark: int, total: int) -> list[Cluster]:
    clusters = [able(f"m{n:02}", DARK, ready="False") for n in range(dark)]
    return [*clusters, *(able(f"m{n:02}") for n in range(dark, total))]


def test_one_of_forty_is_evacuated_and_thirty_of_forty_are_not() -> None:
    subject = binding(clusters={"m00": 2})
    assert left_by(seen(subject, *fleet_with(1, 40))) is not None
    wishes = seen(subject, *fleet_with(30, 40))
    assert left_by(wishes) is None
    assert [wish.reason for wish in wishes if isinstance(wish, Note)] == ["EvictionStopped"]


def test_in_a_gust_evictions_slow_down() -> None:
    view = FakeView(fleet_with(15, 40), parts={"fleet": Picture(fleet_with(15, 40))})
    view.memory["eviction slot", "last"] = NOON
    wishes = list(leave(binding(clusters={"m00": 2}), view))
    (again,) = [wish for wish in wishes if isinstance(wish, Again)]
    assert 6 < again.seconds < 7  # a tenth of 1.5 a second
    (note,) = [wish for wish in wishes if isinstance(wish, Note)]
    assert (note.reason, note.message) == (
        "EvictionSlowed",
        "15 of 40 clusters are not ready at once; evictions slow down.",
    )


def test_the_thresholds_are_fields() -> None:
    policy = DisruptionPolicy(metadata=Meta(name="default"), spec=DisruptionPolicySpec(storm=Storm(stop_above="90%")))
    assert left_by(seen(binding(clusters={"m00": 2}), *fleet_with(30, 40), things=[policy])) is not None


@pytest.mark.parametrize(
    ("dark", "total", "pace"), [(1, 2, 1), (2, 3, 1), (2, 4, 1), (3, 4, 0.1), (4, 5, 0), (6, 10, 0.1), (7, 10, 0)]
)
def test_in_a_small_fleet_a_few_dark_clusters_are_no_storm(dark: int, total: int, pace: float) -> None:
    clusters = fleet_with(dark, total)
    assert pace_of(clusters[0], FakeView(clusters)) == pace


def test_how_many_make_a_storm_is_a_field() -> None:
    policy = DisruptionPolicy(metadata=Meta(name="default"), spec=DisruptionPolicySpec(storm=Storm(at_least=1)))
    clusters = fleet_with(2, 3)
    assert pace_of(clusters[0], FakeView([*clusters, policy])) == 0.1


def test_a_taint_by_hand_is_no_storm() -> None:
    clusters = [able(f"m{n}", "x:NoExecute", ready="False") for n in range(3)]
    assert left_by(seen(binding(clusters={"m0": 2}), *clusters, able("m9"))) is not None


def test_evictions_follow_each_other_at_the_rate() -> None:
    clusters = [able("m1", "x:NoExecute"), able("m2")]
    view = FakeView(clusters, parts={"fleet": Picture(clusters)}, settings={"eviction-rate": 2})
    view.memory["eviction slot", "last"] = NOON
    (again,) = [wish for wish in leave(binding(clusters={"m1": 2}), view) if isinstance(wish, Again)]
    assert again.seconds == 0.5


def test_what_is_to_be_preserved_must_be_known_before_a_cluster_is_left() -> None:
    rules = StatePreservation(rules=(StatePreservationRule(alias_label_name="job", json_path="{.jobs[*].id}"),))
    behaviour = FailoverBehavior(cluster=ClusterFailoverBehavior(purge_mode="Directly", state_preservation=rules))
    fleet = (able("m1", "x:NoExecute"), able("m2"))
    silent = binding(clusters={"m1": 3}, failover=behaviour)
    wishes = seen(silent, *fleet)
    assert left_by(wishes) is None
    assert any("preserved as job" in wish.message for wish in wishes if isinstance(wish, Note))
    assert left_by(seen(silent, *fleet, profile=UPSTREAM)) is None
    told = item("m1", status={"jobs": [{"id": 7}, {"id": "b"}]})
    left = left_by(seen(silent.but(status=silent.status.but(aggregated_status=(told,))), *fleet))
    assert left is not None
    assert left.spec.graceful_eviction_tasks[0].preserved_label_state == {"job": "7 b"}


def test_a_binding_is_looked_at_when_it_is_placed_or_tolerates_otherwise_and_not_for_its_status() -> None:
    before = binding(clusters={"m1": 1})
    healthier = before.but(status=before.status.but(aggregated_status=(item("m1"),)))
    tolerant = before.but(metadata=before.metadata.but(annotations={well_known.APPLIED_PLACEMENT: '{"x":1}'}))
    stuck = stalled(before, EVICTION_BLOCKED, "nowhere to go", NOON)

    def is_looked_at(old: Binding | None, new: Binding, *clusters: Cluster) -> bool:
        return bool(list(may_have_to_leave(old, new, FakeView(clusters))))

    dark, bright = cluster("m1", DARK), cluster("m1")
    assert is_looked_at(None, before, dark)
    assert is_looked_at(binding(clusters={"m2": 1}), before, dark)
    assert is_looked_at(before, tolerant, dark)
    assert not is_looked_at(before, healthier, dark)
    assert not is_looked_at(None, before, bright)
    assert not is_looked_at(before, binding(clusters={"m2": 1}), dark)
    assert is_looked_at(before, stuck, bright)


def test_a_cluster_that_is_known_only_after_those_in_it_sends_them_to_look() -> None:
    placed = binding(clusters={"m1": 1})
    assert list(may_have_to_leave(None, placed, FakeView())) == []
    dark = cluster("m1", DARK)
    assert list(tainted_bindings(None, dark, FakeView([placed, dark]))) == [key_of(placed)]
