"""Doubts: a budget that can never let a pod go is accepted, and its author is told what that means."""

import msgspec

from trimtab.api.kind import Kind
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw
from trimtab.decide.budget import Limit
from trimtab.server.admission import Attributes
from trimtab.server.wire import labels_of
from trimtab.store.log import Store

_BUDGETS: dict[str, type[PodDisruptionBudget] | type[DisruptionBudget]] = {
    "poddisruptionbudgets.policy": PodDisruptionBudget,
    "disruptionbudgets.trimtab.dev": DisruptionBudget,
}
NEVER = "it never lets a pod go, and nodes with its pods cannot be drained"


class Doubts:
    """An admission plugin that refuses nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, kind: Kind) -> bool:
        return kind.id in _BUDGETS

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        type_ = _BUDGETS.get(attributes.where.served.kind.id)
        if obj is None or type_ is None or attributes.where.subresource:
            return
        if old is not None and old.get("spec") == obj.get("spec"):
            return
        budget = msgspec.convert(obj, type_, strict=False)
        if isinstance(budget, DisruptionBudget) and (
            budget.spec.target == "Workloads" or budget.spec.surge == "Allowed"
        ):
            return
        limit = Limit(budget.spec.min_available, budget.spec.max_unavailable)
        count = self._matched(attributes.where.namespace, budget.spec.selector)
        if limit != Limit() and limit.desired(100) >= 100 and limit.follows_scale:
            attributes.caller.warn(f"{budget.name}: {NEVER}")
        elif isinstance(limit.min_available, int) and 0 < count <= limit.min_available:
            attributes.caller.warn(
                f"{budget.name}: {limit.min_available} must be available and {count} are there; {NEVER}"
            )

    def _matched(self, namespace: str, selector: LabelSelector | None) -> int:
        if selector is None:
            return 0
        pods = self._store.list(f"/registry/core/pods/{namespace}/").entries
        return sum(selector.matches(labels_of(entry.value)) for entry in pods)
