import msgspec
from pod_builders import pod

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.decide.pods.priority import RANKS_BY_VALUE, PriorityRanks, priority_ranks


def test_listed_classes_of_equal_value_get_ranks_between_the_neighbouring_values() -> None:
    def priority_class(name: str, value: int) -> PriorityClass:
        return msgspec.convert({"metadata": {"name": name}, "value": value}, PriorityClass)

    order = msgspec.convert({"spec": {"names": ["gold", "silver"]}}, PriorityOrder)
    found = priority_ranks(
        [
            priority_class("gold", 10),
            priority_class("silver", 10),
            priority_class("next", 11),
            priority_class("low", 0),
        ],
        order,
    ).by_name
    assert found["low"] < found["silver"] < found["gold"] < found["next"]
    assert priority_ranks([priority_class("gold", 10)], None).by_name == {}


def test_rank_replaces_the_priority_of_a_pod_and_unlisted_pods_are_unchanged() -> None:
    gold = pod("p", priority=10, priorityClassName="gold")
    assert PriorityRanks({"gold": 12}).with_rank(gold).spec.priority == 12
    assert RANKS_BY_VALUE.with_rank(gold) is gold
