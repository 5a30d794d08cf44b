from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from pod_builders import pod

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetStatus, EffectiveBudget
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Condition
from trimtab.decide.pods.budgets.budget import BudgetLimit, OwnerController
from trimtab.decide.pods.budgets.budget_status import (
    NamespacePods,
    next_own_status,
    next_status,
    preemption_budget,
    with_capped_condition,
)
from trimtab.decide.pods.budgets.eviction import Preconditions
from trimtab.decide.pods.budgets.pod_budgets import (
    SYNC_FAILED,
    UNKNOWN_CAUSE,
    GuardingBudget,
    charge_pod_budget,
    condition_of,
    evaluate_eviction,
    selects,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
WEB = [pod(f"web-{i}", on="a", status=READY) for i in range(3)]
OWNER = "default-ReplicaSet/web"
CONTROLLERS = {OWNER: OwnerController(OWNER, "ReplicaSet", 3)}


def budget(**spec: object) -> PodDisruptionBudget:
    raw = {
        "metadata": {"name": "web", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    return msgspec.convert(raw, PodDisruptionBudget)


def with_synced_status(one: PodDisruptionBudget) -> PodDisruptionBudget:
    return one.but(status=next_status(one, WEB, CONTROLLERS, NOON))


def test_second_reconcile_has_nothing_to_write() -> None:
    one = with_synced_status(budget(maxUnavailable=1))
    assert one.status.disruptions_allowed == 1
    assert with_synced_status(one) == one


def test_missing_controller_closes_the_budget_with_sync_failed() -> None:
    one = with_synced_status(budget(maxUnavailable=1))
    status = next_status(one, WEB, {}, NOON)
    assert status.disruptions_allowed == 0
    assert condition_of(status.conditions).reason == SYNC_FAILED
    assert status.expected_pods == 3


def test_charged_eviction_closes_the_budget_for_the_next_one() -> None:
    one = with_synced_status(budget(maxUnavailable=1))
    given = evaluate_eviction(WEB[0], [GuardingBudget(one)], Preconditions(), NOON, several_allowed=True)
    (debit,) = given.charges
    after = charge_pod_budget(one, debit, "web-0", UNKNOWN_CAUSE, NOON)
    assert condition_of(after.status.conditions).status == "False"
    assert not evaluate_eviction(
        WEB[1], [GuardingBudget(after)], Preconditions(), NOON, several_allowed=True
    ).is_allowed


def test_budgets_select_pods_of_their_namespace_only() -> None:
    assert not selects(budget(), pod("p", namespace="other"))
    assert not selects(budget(selector=None), pod("p"))
    assert selects(budget(selector={}), pod("p", app="anything"))


def own_budget(limit: dict[str, object] | None = None, **status: object) -> DisruptionBudget:
    raw = {
        "metadata": {"name": "web", "namespace": "default", "generation": 2},
        "spec": {"target": "Pods", "selector": {"matchLabels": {"app": "web"}}, **(limit or {})},
        "status": {"observedGeneration": 2, **status},
    }
    return msgspec.convert(raw, DisruptionBudget, strict=False)


def own_status(
    budget: DisruptionBudget, pods: list[Pod], controllers: dict[str, OwnerController] = CONTROLLERS
) -> DisruptionBudgetStatus:
    spec = budget.spec
    effective = EffectiveBudget(min_available=spec.min_available, max_unavailable=spec.max_unavailable, rate=spec.rate)
    return next_own_status(budget, NamespacePods(pods, controllers), effective, NOON)


def changed(one: Pod, *, deleted: bool = False, created: datetime | None = None, **conditions: str) -> Pod:
    metadata = one.metadata.but(
        deletion_timestamp=NOON if deleted else None, creation_timestamp=created or NOON - timedelta(days=1)
    )
    return one.but(
        metadata=metadata,
        status=one.status.but(conditions=tuple(Condition(type=key, status=on) for key, on in conditions.items())),
    )


def in_flight(name: str, ago: timedelta) -> dict[str, object]:
    return {"object": name, "replicas": 1, "since": (NOON - ago).isoformat()}


def test_only_selected_pods_count() -> None:
    others = [pod(f"db-{i}", on="a", app="db", status=READY) for i in range(5)]
    assert next_status(budget(maxUnavailable=1), [*WEB, *others], CONTROLLERS, NOON).current_healthy == 3
    assert own_status(own_budget({"maxUnavailable": 1}), [*WEB, *others]).available == 3


def test_a_given_limit_replaces_that_of_the_spec() -> None:
    found = next_status(budget(maxUnavailable=1), WEB, CONTROLLERS, NOON, BudgetLimit(max_unavailable=2))
    assert found.disruptions_allowed == 2


def test_a_budget_that_allows_nothing_says_so() -> None:
    found = next_status(budget(maxUnavailable=0), WEB, CONTROLLERS, NOON)
    assert (found.disruptions_allowed, condition_of(found.conditions).status) == (0, "False")
    own = own_status(own_budget({"maxUnavailable": 0}), WEB)
    assert (own.allowed_now, condition_of(own.conditions).status) == (0, "False")


def test_an_unknown_scale_closes_a_disruption_budget() -> None:
    known = own_budget({"maxUnavailable": 1}, disruptionsAllowed=1, allowedNow=1)
    found = own_status(known, WEB, {})
    assert (found.disruptions_allowed, found.allowed_now) == (0, 0)
    assert condition_of(found.conditions).reason == SYNC_FAILED


def test_a_budget_with_a_rate_only_allows_every_healthy_pod_within_the_rate() -> None:
    rated = own_budget({"rate": {"disruptions": 2, "period": "1h"}})
    found = own_status(rated, WEB)
    assert (found.disruptions_allowed, found.allowed_now) == (3, 2)


def test_disruptions_of_the_period_count_and_older_ones_are_dropped() -> None:
    recent = [{"object": "web-0", "at": (NOON - ago).isoformat()} for ago in (timedelta(hours=1), timedelta(minutes=9))]
    rated = own_budget({"rate": {"disruptions": 1, "period": "1h"}}, rate={"recent": recent})
    found = own_status(rated, WEB)
    assert found.rate is not None
    assert (found.rate.in_window, len(found.rate.recent), found.rate.limit) == (1, 1, 1)
    assert (found.allowed_now, found.next_allowed_at) == (0, NOON + timedelta(minutes=51))
    assert "1 of 1 disruptions in 1h" in condition_of(found.conditions).message


def test_moves_in_flight_limit_what_is_allowed_now() -> None:
    busy = own_budget({"maxUnavailable": 2, "maxConcurrent": 1}, inFlight=[in_flight("web-0", timedelta(seconds=5))])
    assert own_status(busy, WEB).allowed_now == 0
    assert own_status(own_budget({"maxUnavailable": 2, "maxConcurrent": 1}), WEB).allowed_now == 1


def test_a_closed_window_allows_nothing_now() -> None:
    night = own_budget({"maxUnavailable": 2, "windows": [{"schedule": "0 2 * * *", "duration": "1h"}]})
    found = own_status(night, WEB)
    assert (found.disruptions_allowed, found.allowed_now) == (2, 0)
    assert found.next_allowed_at == NOON + timedelta(hours=14)


@pytest.mark.parametrize(
    ("pods", "ago", "kept"),
    [
        (WEB[1:], timedelta(minutes=9), True),
        (WEB[1:], timedelta(minutes=10), False),
        ([*WEB[1:], pod("web-9", on="a", status=READY)], timedelta(minutes=1), False),
        ([changed(WEB[0], deleted=True, Ready="True"), *WEB[1:]], timedelta(minutes=9), True),
        ([changed(WEB[0], Ready="True"), *WEB[1:]], timedelta(minutes=1), True),
        ([changed(WEB[0], Ready="True"), *WEB[1:]], timedelta(minutes=2), False),
        ([changed(WEB[0], created=NOON, Ready="True"), *WEB[1:]], timedelta(minutes=1), False),
        ([changed(WEB[0], created=NOON, Ready="False"), *WEB[1:]], timedelta(minutes=1), True),
        ([changed(WEB[0], created=NOON - timedelta(minutes=1), Ready="True"), *WEB[1:]], timedelta(minutes=1), True),
    ],
    ids=[
        "gone",
        "gone too long",
        "replaced",
        "ending",
        "not evicted yet",
        "never evicted",
        "same name, healthy",
        "same name, not healthy",
        "created in the second of the charge",
    ],
)
def test_a_disruption_is_in_flight_until_its_pod_is_replaced(pods: list[Pod], ago: timedelta, kept: bool) -> None:
    found = own_status(own_budget({"maxUnavailable": 1}, inFlight=[in_flight("web-0", ago)]), pods)
    assert bool(found.in_flight) is kept


@pytest.mark.parametrize(
    ("pods", "gone", "counts"),
    [
        (WEB, [], (0, 0)),
        (WEB[1:], [], (0, 1)),
        (WEB[1:], ["web-0"], (1, 0)),
        (WEB[2:], ["web-0"], (1, 1)),
        ([changed(WEB[0], Ready="False"), *WEB[1:]], [], (0, 1)),
        ([changed(WEB[0], deleted=True, Ready="True"), *WEB[1:]], [], (0, 1)),
        ([changed(WEB[0], deleted=True, Ready="True", DisruptionTarget="True"), *WEB[1:]], [], (1, 0)),
        ([changed(WEB[0], Ready="False", DisruptionTarget="False"), *WEB[1:]], [], (0, 1)),
        ([changed(WEB[0], Ready="False", PodScheduled="True"), *WEB[1:]], [], (0, 1)),
        ([changed(pod("web-9", on="a"), Ready="False"), *WEB[1:]], ["web-0"], (1, 0)),
        ([*WEB, changed(pod("web-9", on="a"), Ready="True")], ["web-7"], (0, 0)),
        ([changed(WEB[0], Ready="False", DisruptionTarget="True"), *WEB[1:]], ["web-8", "web-9"], (1, 0)),
        ([changed(WEB[0], Ready="False"), *WEB[1:]], ["web-8", "web-9"], (1, 0)),
    ],
    ids=[
        "all healthy",
        "one lost",
        "one evicted",
        "one evicted and one lost",
        "one not ready",
        "one deleted",
        "one evicted and ending",
        "not the target of a disruption",
        "another condition",
        "replacement is starting",
        "more than desired",
        "one ending and others replaced",
        "one starting and others replaced",
    ],
)
def test_disruptions_and_failures_are_counted_apart(pods: list[Pod], gone: list[str], counts: tuple[int, int]) -> None:
    entries = [in_flight(name, timedelta(minutes=1)) for name in gone]
    down = own_status(own_budget({"maxUnavailable": 1}, inFlight=entries), pods).unavailable
    assert (down.voluntary, down.involuntary) == counts


def test_a_pod_that_may_be_evicted_counts_as_disrupted_before_it_ends() -> None:
    granted = own_budget({"maxUnavailable": 1}, disruptedPods={"web-0": NOON.isoformat()})
    for first in (WEB[0], changed(WEB[0], Ready="False")):
        down = own_status(granted, [first, *WEB[1:]]).unavailable
        assert (down.voluntary, down.involuntary) == (1, 0)


def test_the_capped_condition_goes_when_no_floor_applies() -> None:
    effective = EffectiveBudget(max_unavailable=2, source="DisruptionPolicy default")
    one = own_budget({"maxUnavailable": 1})
    capped = with_capped_condition(one, effective, NOON)
    assert [(item.type, item.status) for item in capped] == [("CappedByPolicy", "True")]
    assert "maxUnavailable 2" in capped[0].message
    assert "minAvailable" not in capped[0].message
    again = one.but(status=one.status.but(conditions=capped))
    later = with_capped_condition(again, effective, NOON + timedelta(hours=1))
    assert [item.last_transition_time for item in later] == [NOON]
    assert with_capped_condition(again, effective.but(source=""), NOON) == ()
    assert with_capped_condition(again, None, NOON) == ()


def test_preemption_sees_what_an_eviction_would() -> None:
    recent = [{"object": "web-0", "at": NOON.isoformat()}]
    counters = {"disruptionsAllowed": 3, "currentHealthy": 3, "expectedPods": 3}
    open_ = own_budget({"minAvailable": 0}, **counters)
    assert preemption_budget(open_).allowed == preemption_budget(open_, NOON).allowed == 3
    rated = own_budget(
        {"minAvailable": 0, "rate": {"disruptions": 2, "period": "1h"}}, rate={"recent": recent}, **counters
    )
    assert preemption_budget(rated, NOON).allowed == 1
    busy = own_budget({"minAvailable": 0, "maxConcurrent": 2}, inFlight=[in_flight("web-0", timedelta(0))], **counters)
    assert preemption_budget(busy, NOON).allowed == 1
    closed = own_budget({"minAvailable": 0, "windows": [{"schedule": "0 2 * * *", "duration": "1h"}]}, **counters)
    assert preemption_budget(closed, NOON).allowed == 0
    stale = open_.but(metadata=open_.metadata.but(generation=3))
    assert preemption_budget(stale, NOON).allowed == 0
    assert (preemption_budget(stale).allowed, preemption_budget(stale).exact) == (3, False)
