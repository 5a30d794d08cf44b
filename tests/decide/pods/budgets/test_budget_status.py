from datetime import UTC, datetime

import msgspec
from pod_builders import pod

from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.decide.pods.budgets.budget import OwnerController
from trimtab.decide.pods.budgets.budget_status import next_status
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
