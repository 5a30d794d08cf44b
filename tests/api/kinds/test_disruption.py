"""Kinds of the group trimtab.dev."""

from api.kinds.kind_helpers import decode, reencode, schema_error_fields, with_schema_defaults
from trimtab.api.kinds.disruption import (
    DISRUPTION_REASONS,
    MOVE_CAUSES,
    DisruptionBudget,
    DisruptionPolicy,
    Move,
    PriorityOrder,
)


def test_budget_schema_limits_rates_and_reasons() -> None:
    good = {"rate": {"disruptions": 1, "period": "1h"}, "reasons": ["Rebalance"]}
    assert schema_error_fields(DisruptionBudget, {"spec": good}) == []
    bad = {"rate": {"disruptions": 0, "period": "0s"}, "reasons": ["Boredom"]}
    assert sorted(schema_error_fields(DisruptionBudget, {"spec": bad})) == [
        "spec.rate.disruptions",
        "spec.rate.period",
        "spec.reasons[0]",
    ]


def test_every_disruption_reason_is_a_cause_of_moves() -> None:
    assert set(DISRUPTION_REASONS) < set(MOVE_CAUSES)


def test_policy_storm_limits_have_defaults() -> None:
    assert with_schema_defaults(DisruptionPolicy, {"spec": {"storm": {}}})["spec"]["storm"] == {
        "slowAbove": "30%",
        "stopAbove": "60%",
        "minUnreadyClusters": 3,
    }


def test_priority_order_lists_each_class_once() -> None:
    assert schema_error_fields(PriorityOrder, {"spec": {"names": ["high", "low"]}}) == []
    assert schema_error_fields(PriorityOrder, {"spec": {"names": ["high", "high"]}}) == ["spec.names[1]"]


def test_move_keeps_its_source_and_microseconds() -> None:
    moved = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    raw = {
        "metadata": {"name": "a"},
        "spec": {"object": moved, "cause": "Rebalance", "from": "m1", "replicas": 2},
        "status": {"started": "2026-01-01T00:00:00.123456Z"},
    }
    assert decode(Move, raw).spec.from_ == "m1"
    assert reencode(Move, raw)["status"] == raw["status"]
    assert reencode(Move, raw)["spec"] == raw["spec"]
