"""Lets the controllers of a cluster see objects of the users' own kinds, as far as these kinds can be scaled."""

from trimtab.api.kinds.native.extension import CustomResourceDefinition
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.decide.pods.budgets.scalable_kinds import Scalable, scalables
from trimtab.runtime.cache import Entry
from trimtab.runtime.reconciler import Surroundings


def follow_scales(around: Surroundings) -> None:
    """From now on every kind with a scale is watched as soon as it is defined, and forgotten when it goes."""

    def heard(old: Entry | None, new: Entry | None) -> None:
        if new is not None:
            new.raw = without_schemas(new.raw)
        known = set(scalables([new.raw])) if new is not None else set()
        for kind in set(scalables([old.raw])) - known if old is not None else ():
            around.resources.pop((kind.api_version, kind.kind), None)
            around.cache.forget(resource_of(kind).id)
        for kind in known:
            resource = around.resources[kind.api_version, kind.kind] = resource_of(kind)
            around.cache.table(resource)

    around.cache.table_of(CustomResourceDefinition).listen(heard)


def resource_of(kind: Scalable) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced)


def without_schemas(definition: Raw) -> Raw:
    """Schemas are most of a definition, and a fleet keeps those of every member in memory."""
    versions = [
        {key: value for key, value in one.items() if key != "schema"}
        for one in definition["spec"].get("versions") or ()
    ]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}
