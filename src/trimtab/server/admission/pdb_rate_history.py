"""What a budget of Kubernetes remembers of its rate is not its author's to forget."""

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.pod_budgets import RECENT
from trimtab.server.admission.chain import Attributes


class Rememberings:
    """An admission plugin: whoever writes a PodDisruptionBudget anew does not wipe out when pods went under it."""

    def concerns(self, kind: Kind, operation: str) -> bool:
        return kind.id == "poddisruptionbudgets.policy"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        kept = ((old or {}).get("metadata", {}).get("annotations") or {}).get(RECENT)
        noted = obj["metadata"].get("annotations") or {}
        if kept is None or noted.get(RECENT) == kept:
            return obj
        return {**obj, "metadata": {**obj["metadata"], "annotations": {**noted, RECENT: kept}}}
