"""StorageObjectInUseProtection admission: claims and volumes get finalizers that keep them while they are in use."""

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server.admission.chain import Attributes
from trimtab.store.store import Store

CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_FINALIZERS = {"persistentvolumeclaims": CLAIM_PROTECTION, "persistentvolumes": VOLUME_PROTECTION}


class StorageProtection:
    """A mutating plugin for new claims and volumes."""

    def __init__(self, store: Store) -> None:
        pass  # as the other plugins of whole clusters, which read from it

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id in _FINALIZERS and operation == "CREATE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        metadata, finalizer = obj["metadata"], _FINALIZERS[attributes.where.served.kind.id]
        finalizers = metadata.get("finalizers") or []
        if finalizer in finalizers:
            return obj
        return {**obj, "metadata": {**metadata, "finalizers": [*finalizers, finalizer]}}
