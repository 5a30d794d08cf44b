from datetime import timedelta
from typing import Any

from views import NOON, FakeView

from trimtab.api.kinds.cluster import Cluster, ClusterStatus
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec, Move
from trimtab.api.kinds.ocm import (
    ClusterDecision,
    LocalPlacementReference,
    ManifestsTemplate,
    ManifestWork,
    ManifestWorkReplicaSet,
    ManifestWorkReplicaSetSpec,
    ManifestWorkSpec,
    PlacementDecision,
    PlacementDecisionStatus,
    RolloutProgressive,
    RolloutStrategy,
)
from trimtab.api.profile import UPSTREAM
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta, Object
from trimtab.controllers.contract import Gone
from trimtab.controllers.ocm.manifestwork_replicaset import FINALIZER, PLACEMENT_NAME_LABEL, replica_set
from trimtab.controllers.ocm.workset_budgets import SET_LABEL, label_of
from trimtab.controllers.ocm.workset_eviction import SINCE
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
TEMPLATE = ManifestWorkSpec(workload=ManifestsTemplate(manifests=(CONFIG_MAP,)))


def a_set(strategy: RolloutStrategy | None = None, name: str = "web", **spec: Any) -> ManifestWorkReplicaSet:
    ref = LocalPlacementReference(name="p", rollout_strategy=strategy or RolloutStrategy())
    return ManifestWorkReplicaSet(
        metadata=Meta(name=name, namespace="team", finalizers=(FINALIZER,), labels={"app": "web"}),
        spec=ManifestWorkReplicaSetSpec(manifest_work_template=TEMPLATE, placement_refs=(ref,), **spec),
    )


def decided(*clusters: str) -> PlacementDecision:
    return PlacementDecision(
        metadata=Meta(name="p-decision-1", namespace="team", labels={PLACEMENT_LABEL: "p"}),
        status=PlacementDecisionStatus(decisions=tuple(ClusterDecision(cluster_name=c) for c in clusters)),
    )


def works(wishes: list[Any]) -> dict[str, ManifestWork]:
    return {wish.namespace: wish for wish in wishes if isinstance(wish, ManifestWork)}


def beat(subject: ManifestWorkReplicaSet, *others: Object) -> list[Any]:
    return list(replica_set(subject, FakeView([subject, *others])))


def succeeded(work: ManifestWork) -> ManifestWork:
    said = tuple(
        Condition(type=type_, status=status, reason="x", last_transition_time=NOON, observed_generation=1)
        for type_, status in (("Applied", "True"), ("Available", "True"), ("Progressing", "False"))
    )
    return work.but(metadata=work.metadata.but(generation=1), status=work.status.but(conditions=said))


def test_every_decided_cluster_gets_a_work_with_the_template_and_its_labels() -> None:
    made = works(beat(a_set(), decided("c1", "c2")))
    assert set(made) == {"c1", "c2"}
    assert made["c1"].spec == TEMPLATE
    assert made["c1"].metadata.labels == {"app": "web", SET_LABEL: "team.web", PLACEMENT_NAME_LABEL: "p"}


def test_a_cluster_that_leaves_the_decision_loses_its_work() -> None:
    made = works(beat(a_set(), decided("c1", "c2")))
    assert Gone(made["c2"]) in beat(a_set(), decided("c1"), *made.values())


def test_the_status_counts_works_and_says_when_all_is_rolled_out() -> None:
    made = [succeeded(work) for work in works(beat(a_set(), decided("c1", "c2"))).values()]
    (after,) = beat(a_set(), decided("c1", "c2"), *made)
    assert {c.type: (c.status, c.reason) for c in after.status.conditions} == {
        "PlacementVerified": ("True", "AsExpected"),
        "PlacementRolledOut": ("True", "Complete"),
        "ManifestworkApplied": ("True", "AsExpected"),
    }
    summary = after.status.summary
    assert (summary.total, summary.applied, summary.desired_total, summary.updated) == (2, 2, 2, 2)
    assert after.status.placement_summary[0].available_decision_groups == "1 (2 / 2 clusters applied)"
    assert beat(after, decided("c1", "c2"), *made) == []


def test_without_decisions_it_says_so() -> None:
    (after,) = beat(a_set())
    assert after.status.conditions[0].reason == "PlacementDecisionNotFound"
    (after,) = beat(a_set(), decided())
    assert after.status.conditions[0].reason == "PlacementDecisionEmpty"


def test_a_new_template_reaches_one_cluster_at_a_time() -> None:
    strategy = RolloutStrategy(
        type="Progressive", progressive=RolloutProgressive(max_concurrency=1, progress_deadline="None")
    )
    made = works(beat(a_set(), decided("c1", "c2")))
    old = [succeeded(work).but(spec=ManifestWorkSpec()) for work in made.values()]
    first = works(beat(a_set(strategy), decided("c1", "c2"), *old))
    assert set(first) == {"c1"}
    then = works(beat(a_set(strategy), decided("c1", "c2"), succeeded(first["c1"]), old[1]))
    assert set(then) == {"c2"}


def test_the_works_go_with_the_set_and_foreground_waits_for_them() -> None:
    made = list(works(beat(a_set(), decided("c1"))).values())
    leaving = a_set(cascade_deletion_policy="Foreground")
    leaving = leaving.but(metadata=leaving.metadata.but(deletion_timestamp=NOON))
    assert beat(leaving, *made) == [Gone(made[0])]
    (free,) = beat(leaving)
    assert free.metadata.finalizers == ()


def test_upstream_refuses_a_name_that_is_no_label_value_in_words() -> None:
    subject = a_set(name="w" * 63)
    (after,) = replica_set(subject, FakeView([subject, decided("c1")], profile=UPSTREAM))
    assert after.status.conditions[0].reason == "NotAsExpected"
    assert "63" in after.status.conditions[0].message


def test_a_long_name_is_known_to_its_works_by_a_hash() -> None:
    subject = a_set(name="w" * 63)
    made = works(beat(subject, decided("c1")))
    label = made["c1"].metadata.labels[SET_LABEL]
    assert len(label) <= 63
    assert label != label_of("team", "w" * 62 + "v")
    (after,) = beat(subject, decided("c1"), succeeded(made["c1"]))
    assert after.status.summary.applied == 1


def ready(name: str) -> Cluster:
    condition = Condition(type="Ready", status="True", reason="x", last_transition_time=NOON)
    return Cluster(metadata=Meta(name=name), status=ClusterStatus(conditions=(condition,)))


CLUSTERS = [ready(name) for name in ("c1", "c2", "c3", "c4")]


def served(*names: str, **spec: Any) -> list[ManifestWork]:
    made = works(beat(a_set(**spec), decided(*names)))
    return [succeeded(made[name]).but(metadata=succeeded(made[name]).metadata.but(uid=name)) for name in names]


def gone(wishes: list[Any]) -> list[str]:
    return [wish.target.namespace for wish in wishes if isinstance(wish, Gone)]


def test_a_work_stays_until_the_one_that_replaces_it_serves() -> None:
    old, new = served("c1"), served("c2")
    waiting = beat(a_set(), decided("c2"), *old, *CLUSTERS)
    assert gone(waiting) == []
    (after,) = [wish for wish in waiting if isinstance(wish, ManifestWorkReplicaSet)]
    assert {c.type: (c.status, c.reason) for c in after.status.conditions}["Stalled"] == (
        "True",
        "WaitingForReplacement",
    )
    assert gone(beat(a_set(), decided("c2"), *old, *new, *CLUSTERS)) == ["c1"]


def test_a_newcomer_that_never_serves_does_not_keep_the_old_one_for_ever() -> None:
    (old,) = served("c1")
    noted = works(beat(a_set(), decided("c2"), old, *CLUSTERS))["c1"]
    assert noted.metadata.annotations[SINCE] == NOON.isoformat()
    subject = a_set()
    later = FakeView([subject, decided("c2"), noted, *CLUSTERS], now=NOON + timedelta(seconds=600))
    assert gone(list(replica_set(subject, later))) == ["c1"]


def test_what_serves_nobody_goes_at_once() -> None:
    (old,) = served("c1")
    assert gone(beat(a_set(), decided("c2"), old)) == ["c1"]
    ill = old.but(status=old.status.but(conditions=()))
    assert gone(beat(a_set(), decided("c2"), ill, *CLUSTERS)) == ["c1"]


def test_a_cluster_that_is_wanted_again_is_not_on_its_way_out_any_more() -> None:
    (old,) = served("c1")
    leaving = old.but(metadata=old.metadata.but(annotations={SINCE: NOON.isoformat()}))
    (stays,) = [wish for wish in beat(a_set(), decided("c1"), leaving, *CLUSTERS) if isinstance(wish, ManifestWork)]
    assert stays.metadata.annotations == {}


def budget(**spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="team", resource_version="2"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector(match_labels={"app": "web"})).but(**spec),
    )


def test_the_budget_is_charged_and_the_log_written_before_a_work_goes() -> None:
    old = served("c1", "c2", "c3")
    wishes = beat(a_set(), decided("c3"), *old, *CLUSTERS, budget(max_unavailable=1))
    order = [type(wish).__name__ for wish in wishes if isinstance(wish, DisruptionBudget | Move | Gone)]
    assert order == ["DisruptionBudget", "Move", "Gone"]
    (charged,) = [wish for wish in wishes if isinstance(wish, DisruptionBudget)]
    assert [(e.object, e.from_) for e in charged.status.in_flight] == [("ManifestWorkReplicaSet/web", "c1")]
    assert gone(beat(a_set(), decided("c3"), *old[1:], *CLUSTERS, charged)) == ["c2"]
    under_way = [old[0].but(metadata=old[0].metadata.but(deletion_timestamp=NOON)), *old[1:]]
    assert gone(beat(a_set(), decided("c3"), *under_way, *CLUSTERS, charged)) == []


def test_a_progressive_set_takes_out_no_more_at_once_than_it_changes_at_once() -> None:
    strategy = RolloutStrategy(type="Progressive", progressive=RolloutProgressive(max_concurrency=1))
    old = served("c1", "c2", "c3")
    assert gone(beat(a_set(strategy), decided("c3"), *old, *CLUSTERS)) == ["c1"]
    assert gone(beat(a_set(), decided("c3"), *old, *CLUSTERS)) == ["c1", "c2"]


def test_upstream_takes_works_out_at_once() -> None:
    subject, old = a_set(), served("c1", "c2")
    view = FakeView([subject, decided("c3"), *old, *CLUSTERS, budget(max_unavailable=0)], profile=UPSTREAM)
    assert gone(list(replica_set(subject, view))) == ["c1", "c2"]
