from datetime import timedelta
from typing import Any

from builders import frozen
from views import NOON, FakeView

from trimtab.api.kinds.cluster import Cluster, ClusterStatus
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec, Move
from trimtab.api.kinds.ocm_work import ManifestWork, ManifestWorkReplicaSet
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta, Object
from trimtab.controllers.contract import Delete
from trimtab.controllers.ocm.workset_budgets import SET_LABEL
from trimtab.controllers.ocm.workset_eviction import (
    BLOCKED_SECONDS,
    LEAVING_SINCE_ANNOTATION,
    WorkRemovals,
    plan_removals,
    without_leaving_since,
)

WEB = ManifestWorkReplicaSet(metadata=Meta(name="web", namespace="team", labels={"app": "web"}))
READY = Condition(type="Ready", status="True", reason="x", last_transition_time=NOON)
CLUSTERS = [Cluster(metadata=Meta(name=f"c{n}"), status=ClusterStatus(conditions=(READY,))) for n in (1, 2, 3)]


def serving_work(cluster: str, **annotations: str) -> ManifestWork:
    metadata = Meta(name="w", namespace=cluster, uid=cluster, labels={SET_LABEL: "team.web"}, annotations=annotations)
    made = ManifestWork(metadata=metadata)
    available = Condition(type="Available", status="True", reason="x", last_transition_time=NOON)
    return made.but(status=made.status.but(conditions=(available,)))


def plan(
    unwanted: list[ManifestWork], *others: Object, pending: tuple[str, ...] = (), slots: int = 10, **view: Any
) -> WorkRemovals:
    return plan_removals(WEB, unwanted, pending, slots, FakeView([WEB, *unwanted, *CLUSTERS, *others], **view))


def deleted(removals: WorkRemovals) -> list[str]:
    return [effect.target.namespace for effect in removals.effects if isinstance(effect, Delete)]


def blocking_budget() -> DisruptionBudget:
    selector = LabelSelector(match_labels={"app": "web"})
    spec = DisruptionBudgetSpec(target="Workloads", selector=selector).but(max_unavailable=0)
    return DisruptionBudget(metadata=Meta(name="b", namespace="team", resource_version="2"), spec=spec)


def test_move_is_written_before_its_work_is_deleted() -> None:
    effects = plan([serving_work("c1")]).effects
    kinds = [type(effect) for effect in effects if isinstance(effect, Move | Delete)]
    assert kinds == [Move, Delete]


def test_one_work_remains_for_each_replacement_that_does_not_serve() -> None:
    removals = plan([serving_work("c1"), serving_work("c2")], pending=("c3",))
    assert (deleted(removals), removals.remaining) == (["c2"], 1)
    assert removals.refusal is not None
    assert removals.refusal.code == "WaitingForReplacement"
    assert removals.seconds_until_retry(NOON) == 600.001


def test_work_does_not_wait_for_its_replacement_after_the_timeout() -> None:
    waiting = serving_work("c1", **{LEAVING_SINCE_ANNOTATION: (NOON - timedelta(seconds=600)).isoformat()})
    assert deleted(plan([waiting], pending=("c3",))) == ["c1"]


def test_budget_that_allows_no_disruption_blocks_serving_works_only() -> None:
    idle = serving_work("c2").but(status=ManifestWork().status)
    removals = plan([serving_work("c1"), idle], blocking_budget())
    assert (deleted(removals), removals.remaining) == (["c2"], 1)
    assert removals.seconds_until_retry(NOON) == BLOCKED_SECONDS


def test_removals_under_way_use_up_slots() -> None:
    first = serving_work("c1")
    terminating = first.but(metadata=first.metadata.but(deletion_timestamp=NOON))
    assert deleted(plan([terminating, serving_work("c2")], slots=1)) == []
    assert deleted(plan([serving_work("c2")], slots=1)) == ["c2"]


def test_upstream_profile_ignores_budgets() -> None:
    assert deleted(plan([serving_work("c1")], blocking_budget(), profile=UPSTREAM)) == ["c1"]


def test_only_the_own_annotation_is_removed_from_a_selected_work() -> None:
    kept = without_leaving_since(serving_work("c1", **{LEAVING_SINCE_ANNOTATION: NOON.isoformat(), "team": "a"}))
    assert kept.metadata.annotations == {"team": "a"}


def test_no_work_is_removed_while_moves_are_frozen() -> None:
    for profile in (TRIMTAB, UPSTREAM):
        removals = plan([serving_work("c1")], frozen(), profile=profile)
        assert (removals.effects, removals.remaining) == ((), 1)
        assert removals.seconds_until_retry(NOON) == BLOCKED_SECONDS
