from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from pod_builders import pod

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionRate
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.value import Condition
from trimtab.decide.pods.budgets.budget import RateWindow
from trimtab.decide.pods.budgets.eviction import BudgetCharge, Preconditions
from trimtab.decide.pods.budgets.pod_budgets import (
    RATE_ANNOTATION,
    UNKNOWN_CAUSE,
    UNLIMITED,
    DisruptionCause,
    GuardingBudget,
    annotated_rate,
    budget_snapshot,
    charge_pod_budget,
    condition_of,
    evaluate_eviction,
    guards_pod,
    parse_rate,
    rate_of,
    with_effective_limits,
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


def with_status(budget: DisruptionBudget, generation: int = 1, **status: Any) -> DisruptionBudget:
    raw = {
        "metadata": {"name": "web", "namespace": "default", "generation": generation},
        "spec": msgspec.to_builtins(budget.spec),
        "status": {"observedGeneration": 1, **status},
    }
    return msgspec.convert(raw, DisruptionBudget, strict=False)


@pytest.mark.parametrize(
    ("condition", "guards"),
    [
        ({"type": "Superseded", "status": "True"}, False),
        ({"type": "Superseded", "status": "False"}, True),
        ({"type": "Ready", "status": "True"}, True),
    ],
)
def test_a_superseded_default_budget_guards_nothing(condition: dict[str, str], guards: bool) -> None:
    assert guards_pod(with_status(own_budget(), conditions=[condition]), pod("p")) is guards


def test_a_budget_without_reasons_counts_every_cause() -> None:
    assert guards_pod(own_budget(), pod("p"), DisruptionCause("drain", "Upgrade"))


def test_more_healthy_pods_than_the_status_says_do_not_raise_the_allowance() -> None:
    """The status also has what was granted meanwhile."""
    budget = pdb(disruptionsAllowed=1, currentHealthy=3, desiredHealthy=1)
    snapshot = budget_snapshot(GuardingBudget(budget, healthy=9), NOON)
    assert (snapshot.disruptions_allowed, snapshot.current_healthy) == (1, 3)
    assert budget_snapshot(GuardingBudget(budget, healthy=0), NOON).disruptions_allowed == 0


@pytest.mark.parametrize("limit", [{"minAvailable": 1}, {"maxUnavailable": 1}])
def test_either_limit_bounds_the_allowance(limit: dict[str, int]) -> None:
    assert budget_snapshot(GuardingBudget(own_budget(**limit)), NOON).disruptions_allowed == 0


def test_effective_limits_replace_the_stated_ones_once_they_belong_to_the_current_generation() -> None:
    stated = own_budget(minAvailable=3, rate={"disruptions": 1, "period": "1h"})
    lenient = {"maxUnavailable": 1, "rate": {"disruptions": 5, "period": "1h"}}
    current = with_effective_limits(with_status(stated, effective=lenient)).spec
    assert (current.min_available, current.max_unavailable) == (None, 1)
    assert rate_of(with_status(stated, effective=lenient)) == RateWindow(5, timedelta(hours=1))
    outdated = with_status(stated, generation=2, effective=lenient)
    assert with_effective_limits(outdated) == outdated
    assert rate_of(outdated) == RateWindow(1, timedelta(hours=1))


def test_the_effective_rate_of_the_policy_replaces_that_of_the_annotation() -> None:
    budget = pdb("1/1h")
    annotations = budget.metadata.annotations | {"trimtab.dev/effective-rate": "3/1h"}
    assert rate_of(budget.but(metadata=budget.metadata.but(annotations=annotations))) == RateWindow(
        3, timedelta(hours=1)
    )
    alone = budget.metadata.but(annotations={"trimtab.dev/effective-rate": "3/1h"})
    assert rate_of(budget.but(metadata=alone)) is None


def test_an_invalid_annotation_states_no_rate() -> None:
    assert annotated_rate(pdb("often")) is None
    assert annotated_rate(pdb("2/1h")) == DisruptionRate(disruptions=2, period="1h")


def test_a_charge_is_entered_in_all_counters_of_a_disruption_budget() -> None:
    budget = with_status(
        own_budget(minAvailable=1, rate={"disruptions": 3, "period": "1h"}), disruptionsAllowed=2, allowedNow=2
    )
    charge = BudgetCharge("web", 1, RateWindow(3, timedelta(hours=1), (NOON, NOON, NOON)))
    after = charge_pod_budget(budget, charge, "p", DisruptionCause("drain", "Upgrade"), NOON)
    assert isinstance(after, DisruptionBudget)
    status = after.status
    assert (status.disruptions_allowed, status.allowed_now, status.disrupted_pods) == (1, 0, {"p": NOON})
    assert [(one.object, one.by, one.reason) for one in status.in_flight] == [("p", "drain", "Upgrade")]
    assert status.rate is not None
    assert [one.at for one in status.rate.recent] == [NOON]
    plenty = charge._replace(rate=RateWindow(9, timedelta(hours=1), (NOON,)))
    assert charge_pod_budget(budget, plenty, "p", UNKNOWN_CAUSE, NOON).status.allowed_now == 1


def test_only_the_named_condition_is_found() -> None:
    conditions = [Condition(type="Superseded", status="True"), Condition(type="DisruptionAllowed", status="False")]
    assert condition_of(conditions).status == "False"
    assert condition_of(conditions[:1]).status == ""
