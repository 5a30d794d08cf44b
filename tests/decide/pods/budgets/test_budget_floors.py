import msgspec

from trimtab.api.kinds.disruption import DisruptionPolicy, DisruptionRate
from trimtab.decide.pods.budgets.budget import BudgetLimit
from trimtab.decide.pods.budgets.budget_floors import BudgetContext, budget_with_floors, floors_for

POLICY = msgspec.convert(
    {
        "spec": {
            "floors": [
                {
                    "atOrBelowPriority": "normal",
                    "minMaxUnavailable": "10%",
                    "minRate": {"disruptions": 6, "period": "1h"},
                }
            ]
        }
    },
    DisruptionPolicy,
)


def test_floor_applies_to_its_priority_and_below() -> None:
    values = {"normal": 100}
    assert floors_for(POLICY, BudgetContext({}, 100, 20), values)
    assert not floors_for(POLICY, BudgetContext({}, 101, 20), values)


def test_only_stricter_limits_are_replaced_by_the_floor() -> None:
    floors = POLICY.spec.floors
    strict = budget_with_floors(
        BudgetLimit(min_available="100%"), DisruptionRate(disruptions=1, period="1h"), floors, 20
    )
    assert (strict.min_available, strict.max_unavailable, strict.source) == (None, "10%", "DisruptionPolicy/default")
    assert strict.rate == DisruptionRate(disruptions=6, period="1h")
    lenient = budget_with_floors(BudgetLimit(max_unavailable=5), None, floors, 20)
    assert (lenient.max_unavailable, lenient.source) == (5, "")


def policy_with(**floor: object) -> DisruptionPolicy:
    return msgspec.convert({"spec": {"floors": [floor]}}, DisruptionPolicy)


def test_a_floor_applies_in_the_namespaces_that_it_selects() -> None:
    gold = policy_with(namespaceSelector={"matchLabels": {"tier": "gold"}}, minMaxUnavailable=1)
    assert floors_for(gold, BudgetContext({"tier": "gold"}, 0, 20), {})
    assert not floors_for(gold, BudgetContext({"tier": "lead"}, 0, 20), {})
    assert floors_for(policy_with(minMaxUnavailable=1), BudgetContext({}, 0, 20), {})
    assert not floors_for(None, BudgetContext({}, 0, 20), {})


def test_a_floor_of_an_unknown_priority_applies_to_nothing() -> None:
    assert not floors_for(POLICY, BudgetContext({}, -1, 20), {})


def test_a_budget_without_a_limit_gets_none() -> None:
    found = budget_with_floors(BudgetLimit(), None, POLICY.spec.floors, 20)
    assert (found.min_available, found.max_unavailable, found.rate, found.source) == (None, None, None, "")


def test_a_limit_as_lenient_as_the_floor_is_kept() -> None:
    kept = budget_with_floors(BudgetLimit(max_unavailable=2), None, POLICY.spec.floors, 20)
    assert (kept.max_unavailable, kept.source) == (2, "")
    strict = budget_with_floors(BudgetLimit(max_unavailable=1), None, POLICY.spec.floors, 20)
    assert (strict.max_unavailable, strict.source) == ("10%", "DisruptionPolicy/default")


def test_a_floor_may_concern_the_limit_or_the_rate_alone() -> None:
    slow = DisruptionRate(disruptions=1, period="1h")
    for_rate = policy_with(minRate={"disruptions": 6, "period": "1h"}).spec.floors
    rated = budget_with_floors(BudgetLimit(max_unavailable=0), slow, for_rate, 20)
    assert (rated.max_unavailable, rated.rate, rated.source) == (
        0,
        DisruptionRate(disruptions=6, period="1h"),
        "DisruptionPolicy/default",
    )
    for_limit = policy_with(minMaxUnavailable=3).spec.floors
    limited = budget_with_floors(BudgetLimit(max_unavailable=0), slow, for_limit, 20)
    assert (limited.max_unavailable, limited.rate) == (3, slow)


def test_a_slower_floor_does_not_slow_a_rate() -> None:
    fast = DisruptionRate(disruptions=1, period="1m")
    assert budget_with_floors(BudgetLimit(max_unavailable=9), fast, POLICY.spec.floors, 20).rate == fast
