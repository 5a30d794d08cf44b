"""What the API server of a single cluster fills in otherwise than that of a fleet."""

from trimtab.api.admission.raw import at, put
from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server.admission.chain import Attributes


class Inside:
    """An admission plugin: in a cluster a budget is over pods unless it says otherwise."""

    def concerns(self, kind: Kind, operation: str) -> bool:
        return kind.id == "disruptionbudgets.trimtab.dev"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.subresource or at(obj, "spec", "target"):
            return obj
        return put(obj, ("spec", "target"), "Pods")
