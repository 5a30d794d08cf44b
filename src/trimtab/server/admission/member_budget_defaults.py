"""Defaults of disruption budgets in the API server of a member cluster."""

from trimtab.api.kind import Kind
from trimtab.api.paths import value_at, with_value
from trimtab.api.value import Raw
from trimtab.server.admission.chain import Attributes


class MemberBudgetDefaults:
    """An admission plugin: in a member cluster a budget targets pods by default."""

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "disruptionbudgets.trimtab.dev"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.subresource or value_at(obj, "spec", "target"):
            return obj
        return with_value(obj, "Pods", "spec", "target")
