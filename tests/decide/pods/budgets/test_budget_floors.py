import msgspec

from trimtab.api.kinds.disruption import DisruptionPolicy, PriorityOrder, Rate
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.decide.pods.budgets.budget import Limit
from trimtab.decide.pods.budgets.budget_floors import Setting, capped, floors_for
from trimtab.decide.pods.priority import ranks

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


def test_a_floor_holds_for_its_priority_and_below() -> None:
    values = {"normal": 100}
    assert floors_for(POLICY, Setting({}, 100, 20), values)
    assert not floors_for(POLICY, Setting({}, 101, 20), values)


def test_only_what_is_stricter_is_capped() -> None:
    floors = POLICY.spec.floors
    strict = capped(Limit(min_available="100%"), Rate(disruptions=1, period="1h"), floors, 20)
    assert (strict.min_available, strict.max_unavailable, strict.source) == (None, "10%", "DisruptionPolicy/default")
    assert strict.rate == Rate(disruptions=6, period="1h")
    lenient = capped(Limit(max_unavailable=5), None, floors, 20)
    assert (lenient.max_unavailable, lenient.source) == (5, "")


def test_an_order_of_names_gives_whole_numbers_that_keep_values_apart() -> None:
    def one(name: str, value: int) -> PriorityClass:
        return msgspec.convert({"metadata": {"name": name}, "value": value}, PriorityClass)

    order = msgspec.convert({"spec": {"names": ["gold", "silver"]}}, PriorityOrder)
    found = ranks([one("gold", 10), one("silver", 10), one("next", 11), one("low", 0)], order).by_name
    assert found["low"] < found["silver"] < found["gold"] < found["next"]
    assert ranks([one("gold", 10)], None).by_name == {}
