"""Bindings are decided in batches, and what was decided is written once."""

from datetime import timedelta

import msgspec
from builders import NOON, binding, cluster, placement
from views import FakeView

from trimtab.api.kinds.ocm import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Note
from trimtab.controllers.schedule import affected_bindings, intent_of, is_ours, schedule
from trimtab.decide.ask import NO_GATES
from trimtab.decide.fleet import Fleet
from trimtab.plugins import load

load()
ENABLED = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]


class Keeper:
    def __init__(self, clusters) -> None:
        self.clusters = clusters

    def at(self, now):
        return Fleet.of(self.clusters, now=now)


def serving(name, *taints):
    import msgspec

    from trimtab.api.kinds.cluster import APIEnablement

    made = cluster(name, *taints)
    apis = tuple(msgspec.convert(ENABLED, list[APIEnablement]))
    return made.but(status=made.status.but(api_enablements=apis))


def view(*clusters, **more) -> FakeView:
    return FakeView(clusters, parts={"fleet": Keeper(clusters)}, **more)


def fresh(**fields):
    made = binding(status_scheduler_observed_generation=1, status_last_scheduled_time=None, **fields)
    annotations = {k: v for k, v in made.metadata.annotations.items() if k != marks.APPLIED_PLACEMENT}
    return made.but(metadata=made.metadata.but(annotations=annotations))


def decided(seen, *things):
    return [wish for _, wish in schedule(things, seen)]


def test_a_new_binding_is_placed_and_told_about() -> None:
    new = fresh(replicas=2)
    wishes = decided(view(serving("m1"), serving("m2")), new)
    (placed,) = [wish for wish in wishes if isinstance(wish, ResourceBinding)]
    assert [(t.name, t.replicas) for t in placed.spec.clusters] == [("m1", 2), ("m2", 2)]
    assert placed.metadata.annotations[marks.APPLIED_PLACEMENT] == "{}"
    assert placed.status.scheduler_observed_generation == 3
    assert marks.condition_of(placed.status.conditions, "Scheduled").reason == "Success"
    notes = [wish for wish in wishes if isinstance(wish, Note)]
    assert {note.message for note in notes} == {"Binding has been scheduled successfully. Result: {m1:2, m2:2}"}
    assert {note.about.kind for note in notes} == {"ResourceBinding", "Deployment"}


def test_deciding_the_same_again_writes_nothing() -> None:
    new = fresh(replicas=2)
    seen = view(serving("m1"))
    (placed,) = [wish for wish in decided(seen, new) if isinstance(wish, ResourceBinding)]
    again = placed.but(metadata=placed.metadata.but(generation=3))
    assert not [wish for wish in decided(seen, again) if isinstance(wish, ResourceBinding)]


def test_no_cluster_fits_keeps_what_is_placed_and_says_why() -> None:
    placed = binding(clusters={"m1": 2}, placement=placement(clusterAffinity={"clusterNames": ["elsewhere"]}))
    wishes = decided(view(serving("m1")), placed)
    (said,) = [wish for wish in wishes if isinstance(wish, ResourceBinding)]
    assert said.spec == placed.spec
    assert marks.condition_of(said.status.conditions, "Scheduled").reason == "NoClusterFit"
    assert any(isinstance(wish, Again) for wish in wishes)


def test_upstream_withdraws_it() -> None:
    placed = binding(clusters={"m1": 2}, placement=placement(clusterAffinity={"clusterNames": ["elsewhere"]}))
    wishes = decided(view(serving("m1"), profile=UPSTREAM), placed)
    (said,) = [wish for wish in wishes if isinstance(wish, ResourceBinding)]
    assert said.spec.clusters == ()
    assert not any(isinstance(wish, Again) for wish in wishes)


def test_each_failed_affinity_group_is_told() -> None:
    groups = placement(
        clusterAffinities=[
            {"affinityName": "first", "clusterNames": ["m9"]},
            {"affinityName": "second", "clusterNames": ["m1"]},
        ]
    )
    wishes = decided(view(serving("m1"), profile=UPSTREAM), fresh(replicas=1, placement=groups))
    (placed,) = [wish for wish in wishes if isinstance(wish, ResourceBinding)]
    assert placed.status.scheduler_observing_affinity_name == "second"
    assert any(isinstance(w, Note) and "clusterAffiliates index(0)" in w.message for w in wishes)


def test_a_binding_on_its_way_out_is_only_told_about() -> None:
    dying = binding(clusters={"m1": 1})
    dying = dying.but(metadata=dying.metadata.but(deletion_timestamp=NOON - timedelta(seconds=1)))
    notes = decided(view(serving("m1")), dying)
    assert [note.message for note in notes] == ["skip schedule deleting resourceBinding: demo/web-deployment"] * 2


def test_suspended_and_foreign_bindings_are_not_ours() -> None:
    from trimtab.api.kinds.work import BindingSuspension

    assert is_ours(binding())
    assert not is_ours(binding(suspension=BindingSuspension(scheduling=True)))
    assert not is_ours(binding(scheduler_name="another"))


def test_a_new_cluster_wakes_what_could_not_be_placed() -> None:
    waiting = binding()
    seen = view(serving("m1"))
    seen.things = [*seen.things, waiting]
    assert [key.name for key in affected_bindings(None, serving("m2"), seen)] == ["web-deployment"]
    seen.profile = UPSTREAM
    assert list(affected_bindings(None, serving("m2"), seen)) == []


def test_a_cluster_that_its_placement_no_longer_decides_for_is_left_and_the_rest_stays() -> None:
    divided = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
    wanted = placement(placementRef={"name": "cheap"}, replicaScheduling=divided)
    follower = binding(clusters={"m1": 2, "m2": 2}, placement=wanted)
    applied = {marks.APPLIED_PLACEMENT: msgspec.json.encode(wanted).decode()}
    follower = follower.but(metadata=follower.metadata.but(annotations=applied))
    status = PlacementDecisionStatus(decisions=tuple(ClusterDecision(cluster_name=name) for name in ("m1", "m3")))
    labels = {"cluster.open-cluster-management.io/placement": "cheap"}
    page = PlacementDecision(metadata=Meta(name="cheap-decision-1", namespace="demo", labels=labels), status=status)
    clusters = [serving(name) for name in ("m1", "m2", "m3")]
    seen, fleet = FakeView([*clusters, page]), Keeper(clusters).at(NOON)

    moving = intent_of(follower, fleet, NO_GATES, seen)
    assert moving is not None
    assert moving.cause == "ScoreChange"
    assert moving.ask.placed == (("m1", 2),)
    assert moving.ask.candidates == {"m1", "m3"}

    settled = follower.but(spec=follower.spec.but(clusters=follower.spec.clusters[:1], replicas=2))
    assert intent_of(settled, fleet, NO_GATES, seen) is None
