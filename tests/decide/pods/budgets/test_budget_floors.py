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
