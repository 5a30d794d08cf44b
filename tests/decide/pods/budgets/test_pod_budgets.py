from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from pod_builders import pod

from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.decide.pods.budgets.budget import RateWindow
from trimtab.decide.pods.budgets.eviction import BudgetCharge, Preconditions
from trimtab.decide.pods.budgets.pod_budgets import (
    RATE_ANNOTATION,
    UNKNOWN_CAUSE,
    UNLIMITED,
    DisruptionCause,
    GuardingBudget,
    budget_snapshot,
    charge_pod_budget,
    evaluate_eviction,
    guards_pod,
    parse_rate,
    rate_of,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
WEB = {"selector": {"matchLabels": {"app": "web"}}}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pdb(rate: str = "", **status: Any) -> PodDisruptionBudget:
    metadata = {"name": "web", "namespace": "default", "annotations": {RATE_ANNOTATION: rate} if rate else {}}
    return msgspec.convert({"metadata": metadata, "spec": WEB, "status": status}, PodDisruptionBudget)


def own_budget(**spec: Any) -> DisruptionBudget:
    metadata = {"name": "web", "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": {**WEB, **spec}}, DisruptionBudget)


@pytest.mark.parametrize("text", ["", "1", "0/1h", "1/soon", "1001/1h", "x/1h"])
def test_invalid_rate_is_none(text: str) -> None:
    assert parse_rate(text) is None


def test_rate_annotation_is_parsed_and_an_invalid_one_closes_the_budget() -> None:
    assert rate_of(pdb("2/1h")) == RateWindow(2, timedelta(hours=1))
    assert budget_snapshot(GuardingBudget(pdb("2/1h")), NOON).closed_reason == ""
    assert "is invalid: often" in budget_snapshot(GuardingBudget(pdb("often")), NOON).closed_reason


def test_budget_guards_only_its_reasons_and_targets() -> None:
    upgrade, move = DisruptionCause("drain", "Upgrade"), DisruptionCause("drain", "Move")
    limited = own_budget(reasons=["Upgrade"])
    assert guards_pod(limited, pod("p"), upgrade)
    assert guards_pod(limited, pod("p"))
    assert not guards_pod(limited, pod("p"), move)
    assert not guards_pod(own_budget(target="Workloads"), pod("p"))
    assert guards_pod(pdb(), pod("p"), move)


def test_fewer_healthy_pods_than_the_status_says_lower_the_allowance() -> None:
    budget = pdb(disruptionsAllowed=2, currentHealthy=3, desiredHealthy=1)
    assert budget_snapshot(GuardingBudget(budget), NOON).disruptions_allowed == 2
    assert budget_snapshot(GuardingBudget(budget, healthy=2), NOON).disruptions_allowed == 1
    running = pod("p", on="a", status=READY)
    assert evaluate_eviction(
        running, [GuardingBudget(budget, 2)], Preconditions(), NOON, several_allowed=False
    ).is_allowed
    assert not evaluate_eviction(
        running, [GuardingBudget(budget, 1)], Preconditions(), NOON, several_allowed=False
    ).is_allowed


def test_budget_with_only_a_rate_has_no_limit_of_healthy_pods() -> None:
    assert (
        budget_snapshot(GuardingBudget(own_budget(rate={"disruptions": 1, "period": "1h"})), NOON).disruptions_allowed
        == UNLIMITED
    )


def test_charge_records_the_disruption_and_its_time() -> None:
    after = charge_pod_budget(
        pdb("1/1h", disruptionsAllowed=1),
        BudgetCharge("web", 0, RateWindow(1, timedelta(hours=1), (NOON,))),
        "p",
        UNKNOWN_CAUSE,
        NOON,
    )
    assert isinstance(after, PodDisruptionBudget)
    assert after.status.disrupted_pods == {"p": NOON}
    assert rate_of(after) == RateWindow(1, timedelta(hours=1), (NOON,))
