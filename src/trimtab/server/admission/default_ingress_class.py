"""DefaultIngressClass admission: an Ingress that names no class gets the newest default class."""

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server.admission.chain import Attributes
from trimtab.store.keys import resource_prefix
from trimtab.store.store import Store

_CLASSES = resource_prefix("networking.k8s.io", "ingressclasses")
_DEFAULT, _CLASS = "ingressclass.kubernetes.io/is-default-class", "kubernetes.io/ingress.class"


class DefaultIngressClass:
    """A mutating plugin for new Ingresses."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "ingresses.networking.k8s.io" and operation == "CREATE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        spec = obj.get("spec") or {}
        if spec.get("ingressClassName") is not None or _CLASS in (obj["metadata"].get("annotations") or {}):
            return obj
        found = [orjson.loads(entry.value)["metadata"] for entry in self._store.list(_CLASSES).entries]
        defaults = [one for one in found if (one.get("annotations") or {}).get(_DEFAULT) == "true"]
        if not defaults:
            return obj
        latest = max(one["creationTimestamp"] for one in defaults)
        name = min(one["name"] for one in defaults if one["creationTimestamp"] == latest)
        return {**obj, "spec": {**spec, "ingressClassName": name}}
