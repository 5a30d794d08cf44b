"""Brings the roles and bindings of an older store up to date when the server starts.

As in kube-apiserver, rules, labels and subjects that are missing in a bootstrap object are added, what users added stays, and the
annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` turns this off. kube-apiserver never takes a rule away. Here an
object that only the server has written is replaced, so that a store does not keep rights for ever that an earlier version granted
too widely.
"""

from collections.abc import Callable, Iterable

import orjson

from trimtab.api.value import Raw
from trimtab.server.auth.authorize import GROUP
from trimtab.server.auth.rule_coverage import missing_actions
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath

MANAGER = "kube-apiserver"
_CALLER = Caller(user_agent=MANAGER)
_RESOURCES = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}
_PARTS = ("rules", "aggregationRule", "subjects")
_AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


async def update_bootstrap_roles(resource_store: ResourceStore, wanted: Iterable[Raw]) -> None:
    """Write those of the wanted roles and bindings that are stored otherwise."""
    for obj in wanted:
        resource = _RESOURCES.get(obj["kind"])
        served = resource_store.catalogue.find(GROUP, "v1", resource) if resource else None
        if served is None:
            continue
        where = ObjectPath(served, "", obj["metadata"]["name"])
        entry = resource_store.store.get(where.key)
        stored = orjson.loads(entry.value) if entry is not None else None
        if stored is not None and updated_object(stored, obj) != stored:
            await resource_store.change(where, _update_to(obj), WriteOptions(field_manager=MANAGER), _CALLER)


def _update_to(wanted: Raw) -> Callable[[Raw], DesiredObject]:
    return lambda stored: DesiredObject(updated_object(stored, wanted))


def updated_object(stored: Raw, wanted: Raw) -> Raw:
    """The stored object with what is missing in it; the wanted one if only the server has written it."""
    metadata = stored["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(_AUTO_UPDATE) == "false":
        return stored
    labels = {**(metadata.get("labels") or {}), **(wanted["metadata"].get("labels") or {})}
    annotations = {**annotations, **(wanted["metadata"].get("annotations") or {})}
    updated = {**stored, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    if is_written_by_server(stored):
        updated = {key: value for key, value in updated.items() if key not in _PARTS}
        return {**updated, **{part: wanted[part] for part in _PARTS if part in wanted}}
    for part, missing in _missing_parts(stored, wanted).items():
        updated[part] = [*(stored.get(part) or ()), *missing]
    return updated


def is_written_by_server(obj: Raw) -> bool:
    """Whether nobody else has changed a field of the object."""
    return {entry.get("manager") for entry in obj["metadata"].get("managedFields") or ()} == {MANAGER}


def _missing_parts(stored: Raw, wanted: Raw) -> dict[str, list[Raw]]:
    held, subjects = stored.get("rules") or [], stored.get("subjects") or []
    missing = {
        "rules": [rule for rule in wanted.get("rules") or () if missing_actions(held, [rule])],
        "subjects": [subject for subject in wanted.get("subjects") or () if subject not in subjects],
    }
    return {part: values for part, values in missing.items() if values}
