"""What every object's metadata must satisfy, whatever its kind."""

import re
from typing import Any

from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server.refuse import quoted

_NAME_PART = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_LABEL_VALUE = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
_SERVICE = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?\Z")
_SAFE_LABELS: set[tuple[str, str]] = set()
"""Pairs already found valid: the same labels come again and again."""

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SERVICE_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_PART_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_ANNOTATIONS_LIMIT = 256 * 1024
_LABEL_NAMED = {"namespaces"}
_SERVICE_NAMED = {"services"}
_PATH_NAMED = {
    "roles.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
}


def _bad(value: Any, why: str, field: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {why}", field)


def _name_faults(name: str, kind_id: str) -> list[str]:
    if kind_id in _PATH_NAMED:
        return path_segment_faults(name)
    pattern, text, limit = _SUBDOMAIN, SUBDOMAIN_TEXT, 253
    if kind_id in _LABEL_NAMED:
        pattern, text, limit = _LABEL, _LABEL_TEXT, 63
    elif kind_id in _SERVICE_NAMED:
        pattern, text, limit = _SERVICE, _SERVICE_TEXT, 63
    faults = [] if len(name) <= limit else [f"must be no more than {limit} characters"]
    if not pattern.match(name):
        faults.append(text)
    return faults


def path_segment_faults(name: str) -> list[str]:
    """Names of roles may hold anything that fits into one part of a path."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


def name_causes(metadata: Raw, kind_id: str) -> list[Cause]:
    name, stem = metadata.get("name") or "", metadata.get("generateName") or ""
    causes = []
    if stem:
        probe = stem.rstrip("-") if stem.endswith("-") else stem
        causes += [_bad(stem, fault, "metadata.generateName") for fault in _name_faults(probe or "x", kind_id)]
    if not name:
        causes.append(Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name"))
        return causes
    return causes + [_bad(name, fault, "metadata.name") for fault in _name_faults(name, kind_id)]


def qualified_name_faults(key: str) -> list[str]:
    """What is wrong with a label or annotation key."""
    prefix, slash, name = key.rpartition("/")
    faults = []
    if slash and not prefix:
        faults.append("prefix part must be non-empty")
    elif slash and not _SUBDOMAIN.match(prefix):
        faults.append(f"prefix part {SUBDOMAIN_TEXT}")
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _NAME_PART.match(name):
        faults.append(_NAME_PART_TEXT)
    return faults


def label_value_faults(value: str) -> list[str]:
    faults = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _LABEL_VALUE.match(value):
        faults.append(_LABEL_VALUE_TEXT)
    return faults


def label_causes(labels: Raw, field: str = "metadata.labels") -> list[Cause]:
    causes: list[Cause] = []
    for key in sorted(labels):
        value = labels[key]
        if (key, value) in _SAFE_LABELS:
            continue
        found = [_bad(key, fault, field) for fault in qualified_name_faults(key)]
        found += [_bad(value, fault, field) for fault in label_value_faults(value)]
        if not found and len(_SAFE_LABELS) < 10_000:
            _SAFE_LABELS.add((key, value))
        causes += found
    return causes


def _annotation_causes(annotations: Raw) -> list[Cause]:
    field = "metadata.annotations"
    causes = [_bad(key, fault, field) for key in sorted(annotations) for fault in qualified_name_faults(key.lower())]
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes", field))
    return causes


def _owner_causes(owners: list[Raw]) -> list[Cause]:
    causes = []
    controller = ""
    for index, owner in enumerate(owners):
        field = f"metadata.ownerReferences[{index}]"
        required = {
            "apiVersion": "must not be empty",
            "kind": "must not be empty",
            "name": "must not be empty",
            "uid": "must not be empty",
        }
        for key, why in required.items():
            if not owner.get(key):
                kind = "FieldValueInvalid" if key == "apiVersion" else "FieldValueRequired"
                said = f'Invalid value: "": version {why}' if key == "apiVersion" else f"Required value: {why}"
                causes.append(Cause(kind, said, f"{field}.{key}"))
        if owner.get("controller"):
            if controller:
                why = f'Only one reference can have Controller set to true. Found "true" in references for {controller} and {owner.get("name")}'
                causes.append(_bad(None, why, "metadata.ownerReferences"))
            controller = owner.get("name") or ""
    return causes


def _finalizer_causes(finalizers: list[str]) -> list[Cause]:
    causes = []
    for index, name in enumerate(finalizers):
        field = f"metadata.finalizers[{index}]" if "/" not in name else "metadata.finalizers"
        causes += [_bad(name, fault, "metadata.finalizers") for fault in qualified_name_faults(name)]
        if "/" not in name and name not in {"orphan", "foregroundDeletion", "kubernetes"}:
            causes.append(_bad(name, "name is neither a standard finalizer name nor is it fully qualified", field))
    return causes


def metadata_causes(metadata: Raw, kind_id: str) -> list[Cause]:
    """Everything wrong with the metadata of a new object."""
    causes = name_causes(metadata, kind_id)
    if labels := metadata.get("labels"):
        causes += label_causes(labels)
    if annotations := metadata.get("annotations"):
        causes += _annotation_causes(annotations)
    if owners := metadata.get("ownerReferences"):
        causes += _owner_causes(owners)
    if finalizers := metadata.get("finalizers"):
        causes += _finalizer_causes(finalizers)
    return causes


def update_causes(new: Raw, old: Raw, kind_id: str) -> list[Cause]:
    """Everything wrong with changing the metadata from `old` to `new`."""
    causes = []
    if (labels := new.get("labels")) and labels != old.get("labels"):
        causes += label_causes(labels)
    if (annotations := new.get("annotations")) and annotations != old.get("annotations"):
        causes += _annotation_causes(annotations)
    if (owners := new.get("ownerReferences")) and owners != old.get("ownerReferences"):
        causes += _owner_causes(owners)
    before, after = old.get("finalizers") or [], new.get("finalizers") or []
    if after != before:
        causes += _finalizer_causes(after)
        added = [name for name in after if name not in before]
        if added and old.get("deletionTimestamp"):
            said = (
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{', '.join(quoted(name) for name in added)}}}"
            )
            causes.append(Cause("FieldValueForbidden", said, "metadata.finalizers"))
    return causes
