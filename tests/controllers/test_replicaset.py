from typing import Any

from views import NOON, FakeView

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
from trimtab.api.value import Condition, Meta, Object
from trimtab.controllers.contract import Gone
from trimtab.controllers.replicaset import FINALIZER, PLACEMENT_NAME_LABEL, SET_LABEL, replica_set
from trimtab.decide.ocm.scene import PLACEMENT_LABEL

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


def test_a_name_that_is_no_label_value_is_refused_in_words() -> None:
    (after,) = beat(a_set(name="w" * 63), decided("c1"))
    assert after.status.conditions[0].reason == "NotAsExpected"
    assert "63" in after.status.conditions[0].message
