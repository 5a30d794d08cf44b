"""A cluster is what its probes say, after a moment's patience."""

from datetime import timedelta

from builders import NOON, binding, cluster
from views import FakeView

from trimtab.api.kinds.cluster import Cluster, NodeSummary
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta
from trimtab.controllers import well_known
from trimtab.controllers.clusters.health import Probe, Streak, health, taint_text
from trimtab.controllers.contract import Gone, Note, Remember


def room(name="m1"):
    return Namespace(metadata=Meta(name=f"karmada-es-{name}"))


def view(*things, probe=None, streak=None, **more) -> FakeView:
    seen = FakeView(things, **more)
    seen.memory["probe", "m1"] = probe
    seen.memory["streak", "m1"] = streak
    return seen


def after(seen, subject):
    wishes = list(health(subject, seen))
    return next((w for w in wishes if isinstance(w, Cluster)), subject), wishes


def up(at=NOON):
    return Probe(at, online=True, healthy=True, version="v1.32.0", nodes=NodeSummary(total_num=2, ready_num=2))


def down(at=NOON):
    return Probe(at, online=False, healthy=False)


def test_a_joining_cluster_gets_a_room_and_is_not_used_before_it_answers() -> None:
    new = cluster("m1", ready="")
    said, wishes = after(view(new), new)
    assert isinstance(wishes[0], Namespace)
    assert [t.key for t in said.spec.taints] == ["cluster.karmada.io/not-ready"]


def test_the_first_answer_counts_at_once_and_clears_the_taint() -> None:
    new = cluster("m1", "cluster.karmada.io/not-ready:NoSchedule", ready="")
    said, wishes = after(view(new, room(), probe=up()), new)
    assert well_known.is_true(said.status.conditions, "Ready")
    assert said.status.kubernetes_version == "v1.32.0"
    assert said.spec.taints == ()
    assert any(isinstance(w, Note) and "does not have taints" in w.message for w in wishes)


def test_a_short_silence_changes_nothing() -> None:
    ready = cluster("m1")
    said, wishes = after(view(ready, room(), probe=down()), ready)
    assert said == ready
    (memory,) = [w for w in wishes if isinstance(w, Remember)]
    assert memory.value == Streak("False", NOON)


def test_a_long_silence_makes_it_not_ready_and_taints_it() -> None:
    ready = cluster("m1")
    seen = view(ready, room(), probe=down(NOON), streak=Streak("False", NOON - timedelta(seconds=31)))
    said, _ = after(seen, ready)
    assert well_known.condition_of(said.status.conditions, "Ready").reason == "ClusterNotReachable"
    assert [(t.key, t.effect) for t in said.spec.taints] == [("cluster.karmada.io/not-ready", "NoSchedule")]


def test_one_that_stays_dark_is_evacuated_after_a_while_but_never_upstream() -> None:
    dark = cluster("m1", "cluster.karmada.io/not-ready:NoSchedule", ready="False")
    later = NOON + timedelta(seconds=300)
    said, _ = after(view(dark, room(), probe=down(later), now=later), dark)
    assert ("cluster.karmada.io/not-ready", "NoExecute") in [(t.key, t.effect) for t in said.spec.taints]
    same, _ = after(view(dark, room(), probe=down(later), now=later, profile=UPSTREAM), dark)
    assert same.spec == dark.spec


def test_a_pull_cluster_that_stops_reporting_is_unknown() -> None:
    quiet = cluster("m1", sync_mode="Pull")
    seen = view(quiet, room())
    seen.memory["heartbeat", "m1"] = NOON - timedelta(seconds=41)
    said, _ = after(seen, quiet)
    assert well_known.condition_of(said.status.conditions, "Ready").status == "Unknown"
    assert said.spec.taints[0].key == "cluster.karmada.io/unreachable"


def dying(subject):
    return subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))


def test_a_leaving_cluster_goes_after_its_room_and_its_bindings() -> None:
    leaving = dying(cluster("m1"))
    wishes = list(health(leaving, view(leaving, room())))
    assert isinstance(wishes[0], Gone)
    waiting = list(health(leaving, view(leaving, binding(clusters={"m1": 1}))))
    assert not [w for w in waiting if isinstance(w, Cluster)]
    (gone,) = health(leaving, view(leaving))
    assert gone.metadata.finalizers == ()


def test_taints_are_listed_as_upstream_lists_them() -> None:
    assert taint_text(cluster("m1", "a:NoSchedule").spec.taints) == (
        "Taint cluster succeed: cluster now has taints([{Key:a,Effect:NoSchedule}])."
    )
