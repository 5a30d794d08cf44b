"""Keeps the rate history of PodDisruptionBudgets across updates."""

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.pod_budgets import RECENT_ANNOTATION
from trimtab.server.admission.chain import Attributes


class PdbRateHistory:
    """An admission plugin: an update of a PodDisruptionBudget does not delete its annotation of recent disruptions."""

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "poddisruptionbudgets.policy"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        history = ((old or {}).get("metadata", {}).get("annotations") or {}).get(RECENT_ANNOTATION)
        annotations = obj["metadata"].get("annotations") or {}
        if history is None or annotations.get(RECENT_ANNOTATION) == history:
            return obj
        return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations, RECENT_ANNOTATION: history}}}
