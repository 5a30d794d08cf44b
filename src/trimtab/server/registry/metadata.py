"""Validation of object metadata, common to all kinds."""

from trimtab.api.field_errors import forbidden, invalid, required, too_long
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import (
    label_faults,
    path_segment_faults,
    qualified_name_faults,
    service_name_faults,
    subdomain_faults,
)
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server.api_errors import quote_value

_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = {"orphan", "foregroundDeletion", "kubernetes"}
_PATH_SEGMENT_NAMED = {
    "apiservices.apiregistration.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
}


def _name_faults(name: str, kind_id: str) -> list[str]:
    if kind_id in _PATH_SEGMENT_NAMED:
        return path_segment_faults(name)
    if kind_id == "namespaces":
        return label_faults(name)
    if kind_id == "services":
        return service_name_faults(name)
    return subdomain_faults(name)


def name_causes(metadata: Raw, kind_id: str) -> list[Cause]:
    name, stem = metadata.get("name") or "", metadata.get("generateName") or ""
    causes = []
    if stem:
        candidate = stem.rstrip("-") or "x"
        causes += [invalid("metadata.generateName", stem, fault) for fault in _name_faults(candidate, kind_id)]
    if not name:
        return [*causes, required("metadata.name", "name or generateName is required")]
    if faults := _name_faults(name, kind_id):
        causes += [invalid("metadata.name", name, fault) for fault in faults]
    return causes


def _annotation_causes(annotations: Raw) -> list[Cause]:
    field = "metadata.annotations"
    causes = list(common.check_annotations(annotations, field))
    if sum(map(len, annotations)) + sum(map(len, annotations.values())) > _ANNOTATIONS_LIMIT:
        causes.append(too_long(field, _ANNOTATIONS_LIMIT))
    return causes


def _owner_causes(owners: list[Raw]) -> list[Cause]:
    causes = []
    controller = ""
    for index, owner in enumerate(owners):
        field = f"metadata.ownerReferences[{index}]"
        if not owner.get("apiVersion"):
            causes.append(invalid(f"{field}.apiVersion", "", "version must not be empty"))
        causes += [
            required(f"{field}.{key}", "must not be empty") for key in ("kind", "name", "uid") if not owner.get(key)
        ]
        if owner.get("controller"):
            if controller:
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {owner.get('name')}"
                )
                causes.append(invalid("metadata.ownerReferences", owners, why))
            controller = owner.get("name") or ""
    return causes


def _finalizer_causes(finalizers: list[str], *, custom: bool) -> list[Cause]:
    """Custom resources may have finalizers without a domain; clients are only warned."""
    causes = []
    for name in finalizers:
        causes += [invalid("metadata.finalizers", name, fault) for fault in qualified_name_faults(name)]
        if not custom and _is_unqualified(name):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid("metadata.finalizers", name, why))
    return causes


def _is_unqualified(finalizer: str) -> bool:
    return "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS


def finalizer_warnings(new: Raw, old: Raw | None = None) -> list[str]:
    """The warnings about new finalizers of a custom resource, in the words of kube-apiserver."""
    before = (old or {}).get("finalizers") or []
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name including a path (/) to avoid '
        "accidental conflicts with other finalizer writers"
        for name in new.get("finalizers") or []
        if name not in before and _is_unqualified(name)
    ]


def metadata_causes(metadata: Raw, kind_id: str, *, custom: bool = False) -> list[Cause]:
    """All validation errors in the metadata of a new object."""
    causes = name_causes(metadata, kind_id)
    if labels := metadata.get("labels"):
        causes += common.check_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        causes += _annotation_causes(annotations)
    if owners := metadata.get("ownerReferences"):
        causes += _owner_causes(owners)
    if finalizers := metadata.get("finalizers"):
        causes += _finalizer_causes(finalizers, custom=custom)
    return causes


def update_causes(new: Raw, old: Raw, kind_id: str, *, custom: bool = False) -> list[Cause]:
    """All validation errors in a metadata update from `old` to `new`."""
    causes: list[Cause] = []
    if (labels := new.get("labels")) and labels != old.get("labels"):
        causes += common.check_labels(labels, "metadata.labels")
    if (annotations := new.get("annotations")) and annotations != old.get("annotations"):
        causes += _annotation_causes(annotations)
    if (owners := new.get("ownerReferences")) and owners != old.get("ownerReferences"):
        causes += _owner_causes(owners)
    before, after = old.get("finalizers") or [], new.get("finalizers") or []
    if after != before:
        causes += _finalizer_causes(after, custom=custom)
        added = [name for name in after if name not in before]
        if added and old.get("deletionTimestamp"):
            listed = ", ".join(quote_value(name) for name in added)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers "
            causes.append(forbidden("metadata.finalizers", f"{why}[]string{{{listed}}}"))
    return causes
