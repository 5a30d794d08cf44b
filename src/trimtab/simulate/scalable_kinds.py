"""Watches custom resources that have a scale subresource, so that the controllers of a cluster can read them."""

from trimtab.api.kinds.native.extension import CustomResourceDefinition
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.decide.pods.budgets.scalable_kinds import ScalableKind, scalable_kinds_of
from trimtab.runtime.cache import CacheEntry
from trimtab.runtime.view import ControlPlaneState


def watch_scalable_kinds(state: ControlPlaneState) -> None:
    """Watch every custom kind with a scale subresource as soon as it is defined, and stop when it is removed."""

    def on_change(old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None:
            new.raw = without_schemas(new.raw)
        known = set(scalable_kinds_of([new.raw])) if new is not None else set()
        for kind in set(scalable_kinds_of([old.raw])) - known if old is not None else ():
            state.resources.pop((kind.api_version, kind.kind), None)
            state.cache.remove_table(resource_of(kind).id)
        for kind in known:
            resource = state.resources[kind.api_version, kind.kind] = resource_of(kind)
            state.cache.table(resource)

    state.cache.table_of(CustomResourceDefinition).add_listener(on_change)


def resource_of(kind: ScalableKind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


def without_schemas(definition: Raw) -> Raw:
    """The CRD without schemas: they are most of it, and a fleet keeps the CRDs of every member in memory."""
    versions = [
        {key: value for key, value in one.items() if key != "schema"}
        for one in definition["spec"].get("versions") or ()
    ]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}
