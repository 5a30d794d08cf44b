"""The JSON form of a managed cluster for CEL expressions, with the fields that OCM always sets."""

from collections.abc import Mapping

import msgspec

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.quantity import InvalidQuantity, canonical_form
from trimtab.api.value import QuantityText, Raw
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.ocm.request import ScoreLookup
from trimtab.decide.ocm.snapshot import score_key


def cel_document(cluster: ManagedCluster) -> Raw:
    """The document that a CEL selector reads."""
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
            status[amounts] = {name: _canonical_text(quantity) for name, quantity in status[amounts].items()}
    return raw


def _canonical_text(quantity: QuantityText) -> str:
    try:
        return canonical_form(quantity)
    except InvalidQuantity:
        return str(quantity)


def cel_documents(fleet: Fleet[ManagedCluster]) -> Array:
    """The documents by column, built once per version of a cluster."""
    return fleet.column("documents", lambda: cel_document, object)


def score_lookup(cluster: str, fleet: Fleet[ManagedCluster]) -> ScoreLookup:
    """The published scores of a cluster, including expired ones."""

    def scores(resource: str) -> Mapping[str, int] | None:
        note = fleet.external_values.get(score_key(resource), {}).get(cluster)
        return None if note is None else note.value

    return scores
