"""Notes on rebalances and drains which user asked for them; what a client writes there itself does not count."""

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.controllers.well_known import DRAIN, REQUESTER
from trimtab.server.admission.chain import Attributes

_REBALANCERS = "workloadrebalancers.apps.karmada.io"
_CLUSTERS = "clusters.cluster.karmada.io"


class Requesters:
    """The admission plugin that keeps the annotation `trimtab.dev/requested-by` true.

    The move log names this user as the one behind a move, so it must not be possible to name somebody else.
    """

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id in (_REBALANCERS, _CLUSTERS) and operation in ("CREATE", "UPDATE")

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if not attributes.caller.verb:
            return obj  # a controller of this process
        before = annotation_of(old, REQUESTER)
        if attributes.where.served.kind.id == _CLUSTERS:
            requester = self._drain_requester(attributes, obj, old, before)
        else:
            requester = before if old is not None else attributes.caller.user.name
        return with_annotation(obj, requester)

    def _drain_requester(self, attributes: Attributes, obj: Raw, old: Raw | None, before: str) -> str:
        """Who began the drain: its beginning is the change of its mark."""
        mark = annotation_of(obj, DRAIN)
        if not mark:
            return ""
        return before if mark == annotation_of(old, DRAIN) else attributes.caller.user.name


def annotation_of(obj: Raw | None, name: str) -> str:
    return str(((obj or {}).get("metadata", {}).get("annotations") or {}).get(name, ""))


def with_annotation(obj: Raw, requester: str) -> Raw:
    """The object with this requester, or without one."""
    metadata = obj["metadata"]
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != REQUESTER}
    if requester:
        annotations[REQUESTER] = requester
    if annotations == (metadata.get("annotations") or {}):
        return obj
    kept = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**obj, "metadata": {**kept, **({"annotations": annotations} if annotations else {})}}
