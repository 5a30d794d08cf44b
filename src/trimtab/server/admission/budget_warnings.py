"""Warnings for disruption budgets that can never be satisfied or that cannot be parsed; they are accepted anyway."""

from typing import cast

import msgspec

from trimtab.api.kind import Kind, kind_of
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.budget import BudgetLimit
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION, parse_rate
from trimtab.server.admission.chain import Attributes
from trimtab.server.storage.object_codec import labels_of
from trimtab.store.keys import namespace_below, object_key, resource_prefix
from trimtab.store.store import Store

_BUDGETS: dict[str, type[PodDisruptionBudget] | type[DisruptionBudget]] = {
    "poddisruptionbudgets.policy": PodDisruptionBudget,
    "disruptionbudgets.trimtab.dev": DisruptionBudget,
}
_PODS = resource_prefix("", "pods")
_POLICY = object_key("trimtab.dev", "disruptionpolicies", "default")
NEVER_EVICTS = "it never allows an eviction, and nodes with its pods cannot be drained"


class BudgetWarnings:
    """An admission plugin that only warns."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id in _BUDGETS

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        type_ = _BUDGETS.get(attributes.where.served.kind.id)
        if obj is None or type_ is None or attributes.where.subresource:
            return
        if (rate := _rate_annotation(obj)) is not None and rate != _rate_annotation(old) and parse_rate(rate) is None:
            name = obj["metadata"].get("name", "")
            problem = f"the annotation {RATE_ANNOTATION} cannot be parsed: {rate}; use for example 1/1h (1 to 1000 per duration)"
            attributes.caller.warn(f"{name}: {problem}; until then it allows no eviction")
        if old is not None and old.get("spec") == obj.get("spec"):
            return
        budget = msgspec.convert(obj, type_, strict=False)
        if isinstance(budget, DisruptionBudget) and (
            budget.spec.target == "Workloads" or budget.spec.surge == "Allowed"
        ):
            return
        limit = BudgetLimit(budget.spec.min_available, budget.spec.max_unavailable)
        count = self._count_matching_pods(attributes.where.namespace, budget.spec.selector)
        if limit != BudgetLimit() and limit.desired_healthy(100) >= 100 and limit.follows_scale:
            attributes.caller.warn(f"{budget.name}: {self._never_evicts_text()}")
        elif isinstance(limit.min_available, int) and 0 < count <= limit.min_available:
            attributes.caller.warn(
                f"{budget.name}: {limit.min_available} pods must be available and {count} exist; {self._never_evicts_text()}"
            )

    def _never_evicts_text(self) -> str:
        entry = self._store.get(_POLICY)
        policy = cast("DisruptionPolicy", kind_of(DisruptionPolicy).decode(entry.value)) if entry is not None else None
        has_floors = policy is not None and any(floor.min_max_unavailable is not None for floor in policy.spec.floors)
        return NEVER_EVICTS + (", unless a floor of the DisruptionPolicy allows more" if has_floors else "")

    def _count_matching_pods(self, namespace: str, selector: LabelSelector | None) -> int:
        if selector is None:
            return 0
        pods = self._store.list(namespace_below(_PODS, namespace)).entries
        return sum(selector.matches(labels_of(entry.value)) for entry in pods)


def _rate_annotation(budget: Raw | None) -> str | None:
    """The rate annotation of a PodDisruptionBudget."""
    return ((budget or {}).get("metadata", {}).get("annotations") or {}).get(RATE_ANNOTATION)
