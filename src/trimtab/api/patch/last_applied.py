"""The annotation in which client-side apply keeps its configuration, for objects that change to server-side apply.

`kubectl apply --server-side` takes over what `kubectl apply` wrote before: fields that the annotation has with the value of the
live object cause no conflict. The annotation follows each applied configuration, so that client-side apply works afterwards.
Both hold for the field manager `kubectl` only; another manager has to resolve conflicts.
"""

import orjson

from trimtab.api.patch.field_ownership import FieldSet, applied_fields, compare, difference
from trimtab.api.patch.merge_schema import MergeSchema
from trimtab.api.value import Raw

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def _configuration_of(obj: Raw) -> str:
    return (obj.get("metadata", {}).get("annotations") or {}).get(ANNOTATION) or ""


def fields_to_take_over(live: Raw, schema: MergeSchema, api_version: str) -> FieldSet:
    """The fields of the last configuration that the live object still has; none for another version."""
    try:
        last = orjson.loads(_configuration_of(live))
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return {}
    changes = compare(last, live, schema)
    fields = applied_fields(last, schema)
    for changed in (changes.modified, changes.added, changes.removed):
        fields = difference(fields, changed)
    return fields


def with_configuration(obj: Raw, config: Raw) -> Raw:
    """The object with this configuration in its annotation, if it has one."""
    if not _configuration_of(obj):
        return obj
    metadata = {**(config.get("metadata") or {})}
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in (metadata["annotations"] or {}).items() if k != ANNOTATION}
    text = orjson.dumps({**config, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    annotations = {**obj["metadata"]["annotations"], ANNOTATION: text}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
