"""Readiness of a DisruptionPolicy."""

from typing import Any

import msgspec
from views import FakeView

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.scheduling import PriorityClass
from trimtab.controllers.pods.disruption_policy_status import disruption_policies, disruption_policy_status

POLICY = msgspec.convert(
    {
        "metadata": {"name": "default", "generation": 3},
        "spec": {"defaultBudgets": [{"priorityClassName": "gold"}, {}], "floors": [{"atOrBelowPriority": "bronze"}]},
    },
    DisruptionPolicy,
)


def priority_class(name: str) -> PriorityClass:
    return msgspec.convert({"metadata": {"name": name}, "value": 1}, PriorityClass)


def conditions(*things: Any) -> dict[str, tuple[str, str]]:
    (after,) = disruption_policy_status(POLICY, FakeView([POLICY, *things]))
    assert isinstance(after, DisruptionPolicy)
    assert after.status.observed_generation == 3
    return {c.type: (c.status, c.message) for c in after.status.conditions}


def test_a_policy_is_not_ready_while_it_names_an_unknown_priority_class() -> None:
    found = conditions(priority_class("gold"))
    assert found["Ready"] == ("False", "there is no PriorityClass bronze")
    assert conditions(priority_class("gold"), priority_class("bronze"))["Ready"][0] == "True"


def test_only_creation_and_deletion_of_a_priority_class_wake_the_policy() -> None:
    gold = priority_class("gold")
    assert [key.name for key in disruption_policies(None, gold, FakeView([POLICY]))] == ["default"]
    assert list(disruption_policies(gold, gold, FakeView([POLICY]))) == []
