"""RuntimeClass admission: a pod gets the overhead, node selector and tolerations of its RuntimeClass."""

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.store.keys import key_below, resource_prefix
from trimtab.store.store import Store

_CLASSES = resource_prefix("node.k8s.io", "runtimeclasses")


class RuntimeClassAdmission:
    """A mutating plugin for new pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "pods" and operation == "CREATE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        spec = obj["spec"]
        name = spec.get("runtimeClassName")
        if not name:
            if spec.get("overhead"):
                why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise api_errors.forbidden("pods", "", attributes.where.name, why)
            return obj
        entry = self._store.get(key_below(_CLASSES, name))
        if entry is None:
            why = f'pod rejected: RuntimeClass "{name}" not found'
            raise api_errors.forbidden("pods", "", attributes.where.name, why)
        found = orjson.loads(entry.value)
        changes: Raw = {}
        if overhead := (found.get("overhead") or {}).get("podFixed"):
            if spec.get("overhead") not in (None, {}, overhead):
                why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                raise api_errors.forbidden("pods", "", attributes.where.name, why)
            changes["overhead"] = overhead
        scheduling = found.get("scheduling") or {}
        if selector := scheduling.get("nodeSelector"):
            changes["nodeSelector"] = _merge_selectors(attributes, selector, spec.get("nodeSelector") or {})
        if tolerations := scheduling.get("tolerations"):
            present = spec.get("tolerations") or []
            changes["tolerations"] = [*present, *(one for one in tolerations if one not in present)]
        return {**obj, "spec": {**spec, **changes}}


def _merge_selectors(attributes: Attributes, of_class: Raw, of_pod: Raw) -> Raw:
    for key, value in of_class.items():
        if of_pod.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {of_pod[key]}"
            )
            raise api_errors.forbidden("pods", "", attributes.where.name, why)
    return {**of_pod, **of_class}
