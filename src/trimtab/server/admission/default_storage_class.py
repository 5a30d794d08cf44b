"""DefaultStorageClass admission: a claim that names no class gets the newest default class."""

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server.admission.chain import Attributes
from trimtab.store.keys import resource_prefix
from trimtab.store.store import Store

_CLASSES = resource_prefix("storage.k8s.io", "storageclasses")
_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


class DefaultStorageClass:
    """A mutating plugin for new claims."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "persistentvolumeclaims" and operation == "CREATE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        spec = obj.get("spec") or {}
        if spec.get("storageClassName") is not None:
            return obj
        classes = [orjson.loads(entry.value) for entry in self._store.list(_CLASSES).entries]
        defaults = [one for one in classes if (one["metadata"].get("annotations") or {}).get(_ANNOTATION) == "true"]
        if not defaults:
            return obj
        newest = max(defaults, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
        return {**obj, "spec": {**spec, "storageClassName": newest["metadata"]["name"]}}
