"""Applies the floors of the DisruptionPolicy to a budget, so that no budget can forbid all disruptions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.api.duration import parse_duration
from trimtab.api.kinds.disruption import BudgetFloor, DisruptionPolicy, DisruptionRate, EffectiveBudget
from trimtab.api.value import IntOrString
from trimtab.decide.pods.budgets.budget import BudgetLimit, scaled_value


class BudgetContext(NamedTuple):
    """The context of a budget: labels of its namespace, highest priority of its pods, expected number of pods."""

    labels: Mapping[str, str]
    priority: int
    expected: int


def floors_for(policy: DisruptionPolicy | None, context: BudgetContext, values: Mapping[str, int]) -> list[BudgetFloor]:
    return [floor for floor in policy.spec.floors if _applies(floor, context, values)] if policy is not None else []


def _applies(floor: BudgetFloor, context: BudgetContext, values: Mapping[str, int]) -> bool:
    selector, name = floor.namespace_selector, floor.at_or_below_priority
    if selector is not None and not selector.matches(context.labels):
        return False
    return not name or (name in values and context.priority <= values[name])


def budget_with_floors(
    limit: BudgetLimit, rate: DisruptionRate | None, floors: Sequence[BudgetFloor], expected: int
) -> EffectiveBudget:
    """Return the budget, or the floor where the budget is stricter."""
    lenient = _more_lenient_limit(limit, floors, expected)
    faster = _faster_rate(rate, floors)
    is_capped = lenient is not None or faster != rate
    return EffectiveBudget(
        min_available=limit.min_available if lenient is None else None,
        max_unavailable=limit.max_unavailable if lenient is None else lenient,
        rate=faster,
        source="DisruptionPolicy/default" if is_capped else "",
    )


def _more_lenient_limit(limit: BudgetLimit, floors: Sequence[BudgetFloor], expected: int) -> IntOrString | None:
    if limit == BudgetLimit():
        return None
    spare = expected - limit.desired_healthy(expected)
    offers = [floor.min_max_unavailable for floor in floors if floor.min_max_unavailable is not None]
    best = max(offers, key=lambda offer: scaled_value(offer, expected), default=None)
    return best if best is not None and scaled_value(best, expected) > spare else None


def _faster_rate(rate: DisruptionRate | None, floors: Sequence[BudgetFloor]) -> DisruptionRate | None:
    if rate is None:
        return None
    return max([rate, *(floor.min_rate for floor in floors if floor.min_rate is not None)], key=_disruptions_per_second)


def _disruptions_per_second(rate: DisruptionRate) -> float:
    return rate.disruptions / max(0.001, parse_duration(rate.period).total_seconds())
