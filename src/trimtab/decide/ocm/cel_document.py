"""A managed cluster as expressions see it: its JSON form, with what is always there and without what never is."""

from collections.abc import Mapping

import msgspec

from trimtab.api.kinds.ocm import ManagedCluster
from trimtab.api.quantity import BadQuantity, canonical
from trimtab.api.value import QuantityText, Raw
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.ocm.request import Scores
from trimtab.decide.ocm.snapshot import score_note


def document_of(cluster: ManagedCluster) -> Raw:
    """What a selector may ask about."""
    raw: Raw = msgspec.json.decode(msgspec.json.encode(cluster))
    spec: Raw = raw.setdefault("spec", {})
    spec.setdefault("hubAcceptsClient", False)
    for taint in spec.get("taints", ()):
        taint.setdefault("timeAdded", None)
    status: Raw = raw.setdefault("status", {})
    status.setdefault("conditions", None)
    status.setdefault("version", {})
    for amounts in ("allocatable", "capacity"):
        if amounts in status:
            status[amounts] = {name: _written(quantity) for name, quantity in status[amounts].items()}
    return raw


def _written(quantity: QuantityText) -> str:
    try:
        return canonical(quantity)
    except BadQuantity:
        return str(quantity)


def documents(fleet: Fleet[ManagedCluster]) -> Array:
    """The documents by column, made once per version of a cluster."""
    return fleet.column("documents", lambda: document_of, object)


def scores_of(cluster: str, fleet: Fleet[ManagedCluster]) -> Scores:
    """The scores that were published for a cluster, whether they have expired or not."""

    def scores(resource: str) -> Mapping[str, int] | None:
        note = fleet.notes.get(score_note(resource), {}).get(cluster)
        return None if note is None else note.value

    return scores
