from datetime import datetime, timedelta
from typing import Any

import pytest
from views import NOON, FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, ClusterStatus
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec, Move
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_placement import ClusterDecision, OcmPlacement, PlacementDecision, PlacementDecisionStatus
from trimtab.api.kinds.ocm_work import (
    LocalPlacementReference,
    ManifestsTemplate,
    ManifestWork,
    ManifestWorkReplicaSet,
    ManifestWorkReplicaSetSpec,
    ManifestWorkReplicaSetSummary,
    ManifestWorkSpec,
    RolloutProgressive,
    RolloutStrategy,
)
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta, Object
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Delete, ReconcileFault
from trimtab.controllers.ocm.manifestwork_replicaset import (
    FINALIZER,
    PLACEMENT_NAME_LABEL,
    manifestwork_replicaset,
    sets_of_placement,
    sets_without_namespaces,
)
from trimtab.controllers.ocm.workset_budgets import SET_LABEL, set_label_value
from trimtab.controllers.ocm.workset_eviction import LEAVING_SINCE_ANNOTATION
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}}
PLACEMENT = OcmPlacement(metadata=Meta(name="p", namespace="team"))
TEMPLATE = ManifestWorkSpec(workload=ManifestsTemplate(manifests=(CONFIG_MAP,)))


def new_set(strategy: RolloutStrategy | None = None, name: str = "web", **spec: Any) -> ManifestWorkReplicaSet:
    ref = LocalPlacementReference(name="p", rollout_strategy=strategy or RolloutStrategy())
    return ManifestWorkReplicaSet(
        metadata=Meta(name=name, namespace="team", finalizers=(FINALIZER,), labels={"app": "web"}),
        spec=ManifestWorkReplicaSetSpec(manifest_work_template=TEMPLATE, placement_refs=(ref,), **spec),
    )


def new_decision(*clusters: str) -> PlacementDecision:
    return PlacementDecision(
        metadata=Meta(name="p-decision-1", namespace="team", labels={PLACEMENT_LABEL: "p"}),
        status=PlacementDecisionStatus(decisions=tuple(ClusterDecision(cluster_name=c) for c in clusters)),
    )


def works_of(effects: list[Any]) -> dict[str, ManifestWork]:
    return {effect.namespace: effect for effect in effects if isinstance(effect, ManifestWork)}


def reconcile(subject: ManifestWorkReplicaSet, *others: Object) -> list[Any]:
    return list(manifestwork_replicaset(subject, FakeView([subject, PLACEMENT, *others])))


def with_success(work: ManifestWork) -> ManifestWork:
    conditions = tuple(
        Condition(type=type_, status=status, reason="x", last_transition_time=NOON, observed_generation=1)
        for type_, status in (("Applied", "True"), ("Available", "True"), ("Progressing", "False"))
    )
    return work.but(metadata=work.metadata.but(generation=1), status=work.status.but(conditions=conditions))


def test_every_selected_cluster_gets_a_work_with_template_and_labels() -> None:
    created = works_of(reconcile(new_set(), new_decision("c1", "c2")))
    assert set(created) == {"c1", "c2"}
    assert created["c1"].spec == TEMPLATE
    assert created["c1"].metadata.labels == {"app": "web", SET_LABEL: "team.web", PLACEMENT_NAME_LABEL: "p"}


def test_work_of_a_deselected_cluster_is_deleted() -> None:
    created = works_of(reconcile(new_set(), new_decision("c1", "c2")))
    assert Delete(created["c2"]) in reconcile(new_set(), new_decision("c1"), *created.values())


def test_status_counts_works_and_reports_a_complete_rollout() -> None:
    created = [with_success(work) for work in works_of(reconcile(new_set(), new_decision("c1", "c2"))).values()]
    (after,) = reconcile(new_set(), new_decision("c1", "c2"), *created)
    assert {c.type: (c.status, c.reason) for c in after.status.conditions} == {
        "PlacementVerified": ("True", "AsExpected"),
        "PlacementRolledOut": ("True", "Complete"),
        "ManifestworkApplied": ("True", "AsExpected"),
    }
    summary = after.status.summary
    assert (summary.total, summary.applied, summary.desired_total, summary.updated) == (2, 2, 2, 2)
    assert after.status.placement_summary[0].available_decision_groups == "1 (2 / 2 clusters applied)"
    assert reconcile(after, new_decision("c1", "c2"), *created) == []


def with_failure(work: ManifestWork, since: datetime) -> ManifestWork:
    conditions = tuple(
        Condition(type=type_, status="True", reason="x", last_transition_time=at, observed_generation=1)
        for type_, at in (("Applied", NOON), ("Progressing", NOON), ("Degraded", since))
    )
    return work.but(metadata=work.metadata.but(generation=1), status=work.status.but(conditions=conditions))


def test_set_with_a_failed_cluster_is_not_rolled_out() -> None:
    created = works_of(reconcile(new_set(), new_decision("c1", "c2")))
    works = [with_success(created["c1"]), with_failure(created["c2"], NOON)]
    (after,) = reconcile(new_set(), new_decision("c1", "c2"), *works)
    rolled_out = find_condition(after.status.conditions, "PlacementRolledOut")
    assert rolled_out is not None
    assert (rolled_out.status, rolled_out.reason) == ("False", "Progressing")


def test_deadline_of_a_failed_cluster_counts_from_its_failure() -> None:
    options = RolloutProgressive(max_concurrency=1, max_failures=1, progress_deadline="5m")
    subject = new_set(RolloutStrategy(type="Progressive", progressive=options))
    created = works_of(reconcile(subject, new_decision("c1", "c2")))
    failed = with_failure(created["c1"], NOON + timedelta(minutes=1))
    objects = [subject, PLACEMENT, new_decision("c1", "c2"), failed]
    for minutes, expected in ((5, set()), (6, {"c2"})):
        view = FakeView(objects, now=NOON + timedelta(minutes=minutes))
        assert set(works_of(list(manifestwork_replicaset(subject, view)))) == expected


def with_conditions(work: ManifestWork, **statuses: str) -> ManifestWork:
    conditions = tuple(
        Condition(type=type_, status=status, reason="x", last_transition_time=NOON, observed_generation=1)
        for type_, status in statuses.items()
    )
    return work.but(metadata=work.metadata.but(generation=1), status=work.status.but(conditions=conditions))


def test_available_work_has_succeeded_where_the_agent_reports_no_progress() -> None:
    subject, decision = new_set(), new_decision("a")
    work = works_of(reconcile(subject, decision))["a"]

    def rolled_out(**statuses: str) -> str:
        effects = reconcile(subject, decision, with_conditions(work, **statuses))
        (status,) = [one for one in effects if isinstance(one, ManifestWorkReplicaSet)]
        (found,) = [one.status for one in status.status.conditions if one.type == "PlacementRolledOut"]
        return found

    assert rolled_out(Applied="True", Available="True") == "True"
    assert rolled_out(Applied="True", Available="False") == "False"
    assert rolled_out(Applied="True", Available="True", Degraded="True") == "False"
    assert rolled_out(Applied="True", Available="True", Progressing="True") == "False"
    assert rolled_out(Applied="False", Available="True") == "False"


def test_conditions_without_a_generation_count_only_as_upstream() -> None:
    one_at_a_time = RolloutStrategy(type="Progressive", progressive=RolloutProgressive(max_concurrency=1))
    subject, decision = new_set(one_at_a_time), new_decision("a", "b")
    work = works_of(reconcile(subject, decision))["a"]

    def next_clusters(profile: Profile, **statuses: str) -> set[str]:
        done = with_conditions(work, **statuses)
        conditions = tuple(one.but(observed_generation=0) for one in done.status.conditions)
        view = FakeView(
            [subject, PLACEMENT, decision, done.but(status=done.status.but(conditions=conditions))], profile=profile
        )
        return set(works_of(list(manifestwork_replicaset(subject, view))))

    assert next_clusters(UPSTREAM, Applied="True", Available="True") == {"b"}
    assert next_clusters(UPSTREAM, Applied="True") == set()
    assert next_clusters(UPSTREAM, Applied="False") == set()
    assert next_clusters(UPSTREAM, Applied="False", Available="True") == set()
    assert next_clusters(UPSTREAM, Applied="True", Degraded="True") == set()
    assert next_clusters(UPSTREAM, Applied="True", Available="True", Degraded="True") == {"b"}
    assert next_clusters(UPSTREAM, Available="True") == set()
    assert next_clusters(TRIMTAB, Applied="True", Available="True") == set()


def test_missing_namespace_of_one_cluster_is_reported_and_the_others_get_their_works() -> None:
    subject, decision = new_set(), new_decision("a", "b")
    namespace = Namespace(metadata=Meta(name="b"))
    fault = ReconcileFault(404, "NotFound", 'namespaces "a" not found', "", 1)
    seen = FakeView([subject, PLACEMENT, decision, namespace], fault=fault)
    effects = list(manifestwork_replicaset(subject, seen))
    assert list(works_of(effects)) == ["b"]
    (status,) = [one for one in effects if isinstance(one, ManifestWorkReplicaSet)]
    (verified,) = [one for one in status.status.conditions if one.type == "PlacementVerified"]
    assert (verified.status, verified.reason, verified.message) == (
        "False",
        "NotAsExpected",
        'namespaces "a" not found',
    )
    assert list(sets_without_namespaces(None, Namespace(metadata=Meta(name="a")), FakeView([status]))) == [
        key_of(subject)
    ]


def test_upstream_profile_summarizes_only_what_ocm_counts() -> None:
    created = [with_success(work) for work in works_of(reconcile(new_set(), new_decision("c1", "c2"))).values()]
    view = FakeView([new_set(), PLACEMENT, new_decision("c1", "c2"), *created], profile=UPSTREAM)
    (after,) = manifestwork_replicaset(new_set(), view)
    assert isinstance(after, ManifestWorkReplicaSet)
    expected = ManifestWorkReplicaSetSummary(total=2, applied=2, available=2)
    assert after.status.summary == expected
    assert [one.summary for one in after.status.placement_summary] == [expected]
    assert after.status.placement_summary[0].available_decision_groups == "1 (2 / 2 clusters applied)"


def condition_reasons(subject: ManifestWorkReplicaSet) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in subject.status.conditions}


def test_missing_or_empty_decision_is_reported() -> None:
    (after,) = reconcile(new_set())
    assert condition_reasons(after) == {
        "PlacementVerified": ("False", "PlacementDecisionNotFound"),
        "PlacementRolledOut": ("False", "Progressing"),
        "ManifestworkApplied": ("False", "NotAsExpected"),
    }
    (after,) = reconcile(new_set(), new_decision())
    assert condition_reasons(after) == {
        "PlacementVerified": ("False", "PlacementDecisionEmpty"),
        "PlacementRolledOut": ("True", "Complete"),
        "ManifestworkApplied": ("False", "PlacementDecisionEmpty"),
    }


@pytest.mark.parametrize("profile", [TRIMTAB, UPSTREAM])
@pytest.mark.parametrize("deletion_timestamp", [None, NOON])
def test_works_stay_when_their_placement_is_deleted(profile: Profile, deletion_timestamp: datetime | None) -> None:
    subject, works = new_set(), serving_works("c1", "c2")
    gone = PLACEMENT.but(metadata=PLACEMENT.metadata.but(deletion_timestamp=deletion_timestamp))
    remaining = [gone, new_decision("c1")] if deletion_timestamp else [new_decision("c1")]
    for others in (remaining, []):
        view = FakeView([subject, *others, *works, *CLUSTERS], profile=profile)
        effects = list(manifestwork_replicaset(subject, view))
        assert deleted(effects) == []
        (after,) = [one for one in effects if isinstance(one, ManifestWorkReplicaSet)]
        assert condition_reasons(after)["PlacementVerified"] == ("False", "PlacementDecisionNotFound")
        assert after.status.summary.total == 2


def test_deleted_and_created_placements_requeue_their_sets() -> None:
    view, terminating = FakeView([new_set()]), PLACEMENT.but(metadata=PLACEMENT.metadata.but(deletion_timestamp=NOON))
    changed = PLACEMENT.but(metadata=PLACEMENT.metadata.but(generation=2))
    for old, new in ((None, PLACEMENT), (PLACEMENT, terminating), (PLACEMENT, None)):
        assert list(sets_of_placement(old, new, view)) == [key_of(new_set())]
    assert list(sets_of_placement(PLACEMENT, changed, view)) == []
    other = OcmPlacement(metadata=Meta(name="q", namespace="team"))
    assert list(sets_of_placement(None, other, view)) == []


def test_works_are_as_expected_when_they_are_available_and_neither_progress_nor_are_degraded() -> None:
    created = works_of(reconcile(new_set(), new_decision("a", "b")))

    def applied(profile: Profile, *works: ManifestWork) -> tuple[str, str]:
        view = FakeView([new_set(), PLACEMENT, new_decision("a", "b"), *works], profile=profile)
        effects = manifestwork_replicaset(new_set(), view)
        (after,) = [one for one in effects if isinstance(one, ManifestWorkReplicaSet)]
        return condition_reasons(after)["ManifestworkApplied"]

    done = with_success(created["a"])
    for profile in (TRIMTAB, UPSTREAM):
        assert applied(profile, done, with_success(created["b"])) == ("True", "AsExpected")
        assert applied(profile, done, created["b"]) == ("False", "NotAsExpected")
        progressing = with_conditions(created["b"], Applied="True", Available="True", Progressing="True")
        assert applied(profile, done, progressing) == ("False", "Processing")
        assert applied(profile, done, with_failure(created["b"], NOON)) == ("False", "NotAsExpected")
    assert applied(UPSTREAM, done) == ("True", "AsExpected")
    assert applied(TRIMTAB, done) == ("False", "NotAsExpected")


def test_upstream_profile_counts_works_with_the_current_template() -> None:
    strategy = RolloutStrategy(type="Progressive", progressive=RolloutProgressive(max_concurrency=1))
    works = serving_works("c1", "c2")
    outdated = works[1].but(spec=ManifestWorkSpec())
    for profile, total, text in (
        (UPSTREAM, 1, "1 (1 / 2 clusters applied)"),
        (TRIMTAB, 2, "1 (2 / 2 clusters applied)"),
    ):
        view = FakeView([new_set(strategy), PLACEMENT, new_decision("c1", "c2"), works[0], outdated], profile=profile)
        effects = manifestwork_replicaset(new_set(strategy), view)
        (after,) = [one for one in effects if isinstance(one, ManifestWorkReplicaSet)]
        assert (after.status.summary.total, after.status.summary.applied) == (total, total)
        assert after.status.placement_summary[0].available_decision_groups == text


def test_progressive_rollout_updates_one_cluster_at_a_time() -> None:
    strategy = RolloutStrategy(
        type="Progressive", progressive=RolloutProgressive(max_concurrency=1, progress_deadline="None")
    )
    created = works_of(reconcile(new_set(), new_decision("c1", "c2")))
    old = [with_success(work).but(spec=ManifestWorkSpec()) for work in created.values()]
    first = works_of(reconcile(new_set(strategy), new_decision("c1", "c2"), *old))
    assert set(first) == {"c1"}
    then = works_of(reconcile(new_set(strategy), new_decision("c1", "c2"), with_success(first["c1"]), old[1]))
    assert set(then) == {"c2"}


def test_works_are_deleted_with_the_set_and_foreground_waits_for_them() -> None:
    created = list(works_of(reconcile(new_set(), new_decision("c1"))).values())
    terminating = new_set(cascade_deletion_policy="Foreground")
    terminating = terminating.but(metadata=terminating.metadata.but(deletion_timestamp=NOON))
    assert reconcile(terminating, *created) == [Delete(created[0])]
    (released,) = reconcile(terminating)
    assert released.metadata.finalizers == ()


def test_upstream_profile_reports_a_name_that_is_no_label_value() -> None:
    subject = new_set(name="w" * 63)
    (after,) = manifestwork_replicaset(subject, FakeView([subject, PLACEMENT, new_decision("c1")], profile=UPSTREAM))
    assert after.status.conditions[0].reason == "NotAsExpected"
    assert "63" in after.status.conditions[0].message


def test_works_refer_to_a_set_with_a_long_name_by_a_hash() -> None:
    subject = new_set(name="w" * 63)
    created = works_of(reconcile(subject, new_decision("c1")))
    label = created["c1"].metadata.labels[SET_LABEL]
    assert len(label) <= 63
    assert label != set_label_value("team", "w" * 62 + "v")
    (after,) = reconcile(subject, new_decision("c1"), with_success(created["c1"]))
    assert after.status.summary.applied == 1


def ready(name: str) -> Cluster:
    condition = Condition(type="Ready", status="True", reason="x", last_transition_time=NOON)
    return Cluster(metadata=Meta(name=name), status=ClusterStatus(conditions=(condition,)))


CLUSTERS = [ready(name) for name in ("c1", "c2", "c3", "c4")]


def serving_works(*names: str, **spec: Any) -> list[ManifestWork]:
    created = works_of(reconcile(new_set(**spec), new_decision(*names)))
    return [
        with_success(created[name]).but(metadata=with_success(created[name]).metadata.but(uid=name)) for name in names
    ]


def deleted(effects: list[Any]) -> list[str]:
    return [effect.target.namespace for effect in effects if isinstance(effect, Delete)]


def test_work_remains_until_its_replacement_serves() -> None:
    old, new = serving_works("c1"), serving_works("c2")
    waiting = reconcile(new_set(), new_decision("c2"), *old, *CLUSTERS)
    assert deleted(waiting) == []
    (after,) = [effect for effect in waiting if isinstance(effect, ManifestWorkReplicaSet)]
    assert {c.type: (c.status, c.reason) for c in after.status.conditions}["Stalled"] == (
        "True",
        "WaitingForReplacement",
    )
    assert deleted(reconcile(new_set(), new_decision("c2"), *old, *new, *CLUSTERS)) == ["c1"]


def test_work_is_deleted_after_the_timeout_if_its_replacement_never_serves() -> None:
    (old,) = serving_works("c1")
    annotated = works_of(reconcile(new_set(), new_decision("c2"), old, *CLUSTERS))["c1"]
    assert annotated.metadata.annotations[LEAVING_SINCE_ANNOTATION] == NOON.isoformat()
    subject = new_set()
    later = FakeView([subject, PLACEMENT, new_decision("c2"), annotated, *CLUSTERS], now=NOON + timedelta(seconds=600))
    assert deleted(list(manifestwork_replicaset(subject, later))) == ["c1"]


def test_work_that_does_not_serve_is_deleted_at_once() -> None:
    (old,) = serving_works("c1")
    assert deleted(reconcile(new_set(), new_decision("c2"), old)) == ["c1"]
    unhealthy = old.but(status=old.status.but(conditions=()))
    assert deleted(reconcile(new_set(), new_decision("c2"), unhealthy, *CLUSTERS)) == ["c1"]


def test_work_of_a_cluster_selected_again_loses_its_annotation() -> None:
    (old,) = serving_works("c1")
    terminating = old.but(metadata=old.metadata.but(annotations={LEAVING_SINCE_ANNOTATION: NOON.isoformat()}))
    (kept,) = [
        effect
        for effect in reconcile(new_set(), new_decision("c1"), terminating, *CLUSTERS)
        if isinstance(effect, ManifestWork)
    ]
    assert kept.metadata.annotations == {}


def budget(**spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="team", resource_version="2"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector(match_labels={"app": "web"})).but(**spec),
    )


def test_budget_is_charged_and_move_written_before_a_work_is_deleted() -> None:
    old = serving_works("c1", "c2", "c3")
    effects = reconcile(new_set(), new_decision("c3"), *old, *CLUSTERS, budget(max_unavailable=1))
    order = [type(effect) for effect in effects if isinstance(effect, DisruptionBudget | Move | Delete)]
    assert order == [DisruptionBudget, Move, Delete]
    (charged,) = [effect for effect in effects if isinstance(effect, DisruptionBudget)]
    assert [(e.object, e.from_) for e in charged.status.in_flight] == [("ManifestWorkReplicaSet/web", "c1")]
    assert deleted(reconcile(new_set(), new_decision("c3"), *old[1:], *CLUSTERS, charged)) == ["c2"]
    terminating_works = [old[0].but(metadata=old[0].metadata.but(deletion_timestamp=NOON)), *old[1:]]
    assert deleted(reconcile(new_set(), new_decision("c3"), *terminating_works, *CLUSTERS, charged)) == []


def test_max_concurrency_limits_removals() -> None:
    strategy = RolloutStrategy(type="Progressive", progressive=RolloutProgressive(max_concurrency=1))
    old = serving_works("c1", "c2", "c3")
    assert deleted(reconcile(new_set(strategy), new_decision("c3"), *old, *CLUSTERS)) == ["c1"]
    assert deleted(reconcile(new_set(), new_decision("c3"), *old, *CLUSTERS)) == ["c1", "c2"]


def test_upstream_profile_deletes_works_at_once() -> None:
    subject, old = new_set(), serving_works("c1", "c2")
    view = FakeView(
        [subject, PLACEMENT, new_decision("c3"), *old, *CLUSTERS, budget(max_unavailable=0)], profile=UPSTREAM
    )
    assert deleted(list(manifestwork_replicaset(subject, view))) == ["c1", "c2"]
