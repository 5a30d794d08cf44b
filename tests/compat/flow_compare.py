"""Compares the final state of a flow with the recorded state of a live Karmada control plane.

Exact: specs, labels, annotations, finalizers, owner references, conditions, aggregated status, member objects, events.
Masked on both sides: versions, times, uids and permanent ids (by the object they belong to), name hashes of
ReplicaSets and ControllerRevisions. Generations are compared as relations, not as numbers.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VERSION_IN_TEXT = re.compile(r'(resourceVersion[":= ]+)\d+')
HASHED = re.compile(r"\b([a-z0-9]([-a-z0-9]*[a-z0-9])?)-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b")
REPLICA_SET = re.compile(r'ReplicaSet "([-a-z0-9]+)-[bcdfghjklmnpqrstvwxz2456789]{5,10}"')
IDS = (
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
    "resourcebinding.karmada.io/permanent-id",
    "clusterresourcebinding.karmada.io/permanent-id",
    "work.karmada.io/permanent-id",
)
OWN_ID = {
    "PropagationPolicy": IDS[0],
    "ClusterPropagationPolicy": IDS[1],
    "ResourceBinding": IDS[2],
    "ClusterResourceBinding": IDS[3],
    "Work": IDS[4],
}
TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"


class Difference(NamedTuple):
    """One place where the found value differs from the recorded one."""

    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path}: recorded {_short(self.expected)}, found {_short(self.actual)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 400 else text[:397] + "..."


class ObjectIds:
    """Maps uids and permanent ids to the objects they belong to."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def add(self, obj: dict[str, Any], member: str = "") -> None:
        metadata = obj["metadata"]
        where = f"{obj['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        if uid := metadata.get("uid"):
            self._known[uid] = f"<uid {where}{'@' + member if member else ''}>"
        own = OWN_ID.get(obj["kind"])
        if not member and own and (id_ := (metadata.get("labels") or {}).get(own)):
            self._known[id_] = f"<id {where}>"

    def mask(self, text: str) -> str:
        return UUID.sub(lambda match: self._known.get(match[0], "<uuid>"), text)


def mask_ids(value: Any, ids: ObjectIds) -> Any:
    """The value with uids, times and versions replaced by placeholders."""
    if isinstance(value, dict):
        return {
            key: "<rv>" if key == "resourceVersion" else mask_ids(inner, ids)
            for key, inner in value.items()
            if key != "managedFields"
        }
    if isinstance(value, list):
        return [mask_ids(inner, ids) for inner in value]
    if isinstance(value, str):
        return VERSION_IN_TEXT.sub(r"\1<rv>", ids.mask(TIME.sub("<time>", value)))
    return value


def relate_generations(obj: dict[str, Any], templates: dict[str, int]) -> dict[str, Any]:
    """The object with its generations replaced by their relations; `templates` maps kind/ns/name to generations."""
    out = json.loads(json.dumps(obj))
    metadata = out["metadata"]
    generation = metadata.pop("generation", None)
    status = out.get("status") or {}
    for field in ("observedGeneration", "schedulerObservedGeneration"):
        if field in status:
            status[field] = "<current>" if status[field] == generation else "<stale>"
    _relate_annotation(metadata, out.get("kind", ""), metadata, templates)
    for manifest in ((out.get("spec") or {}).get("workload") or {}).get("manifests") or []:
        _relate_annotation(manifest["metadata"], manifest["kind"], manifest["metadata"], templates)
    for item in (*(status.get("aggregatedStatus") or []), *(status.get("manifestStatuses") or [])):
        _relate_item(item, out, templates)
    for condition in status.get("conditions") or []:
        condition.pop("observedGeneration", None)
    return out


def _template_key(kind: str, metadata: dict[str, Any]) -> str:
    return f"{kind}/{metadata.get('namespace', '')}/{metadata['name']}"


def _relate_annotation(holder: dict[str, Any], kind: str, metadata: dict[str, Any], templates: dict[str, int]) -> None:
    annotations = holder.get("annotations") or {}
    if TEMPLATE_GENERATION in annotations:
        reached = annotations[TEMPLATE_GENERATION] == str(templates.get(_template_key(kind, metadata)))
        annotations[TEMPLATE_GENERATION] = "<reached>" if reached else "<behind>"


def _relate_item(item: dict[str, Any], owner: dict[str, Any], templates: dict[str, int]) -> None:
    status = item.get("status")
    if not isinstance(status, dict):
        return
    generation = status.pop("generation", None)
    if "observedGeneration" in status and generation is not None:
        status["observedGeneration"] = "<current>" if status["observedGeneration"] == generation else "<stale>"
    if "resourceTemplateGeneration" in status:
        resource = (owner.get("spec") or {}).get("resource") or item.get("identifier") or {}
        key = f"{resource.get('kind', '')}/{resource.get('namespace', '')}/{resource.get('name', '')}"
        reached = status["resourceTemplateGeneration"] == templates.get(key)
        status["resourceTemplateGeneration"] = "<reached>" if reached else "<behind>"


def strip_hashes(value: Any) -> Any:
    """The value without content hashes in revision names; they differ between builds of Kubernetes."""
    if isinstance(value, dict):
        return {
            key: HASHED.sub(r"\1-<hash>", inner)
            if key in ("currentRevision", "updateRevision") and isinstance(inner, str)
            else REPLICA_SET.sub(r'ReplicaSet "\1-<hash>"', inner)
            if key == "message" and isinstance(inner, str)
            else strip_hashes(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [strip_hashes(inner) for inner in value]
    return value


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[Difference]:
    """Every place where two masked values differ; JSON strings in annotations are compared as JSON."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            here = f"{path}.{key}" if "." not in key and "/" not in key else f'{path}["{key}"]'
            if key not in actual:
                yield Difference(here, expected[key], None)
            elif key not in expected:
                yield Difference(here, None, actual[key])
            else:
                yield from differences(expected[key], actual[key], here)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for position, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{path}[{position}]")
    elif expected != actual:
        parsed = _as_json(expected), _as_json(actual)
        if None not in parsed:
            yield from differences(*parsed, path=f"{path}(json)")
        else:
            yield Difference(path, expected, actual)


def _as_json(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in "{[":
        return None
    try:
        return json.loads(value)
    except ValueError:
        return None


class FlowState(NamedTuple):
    """The state at the end of a step: host objects and member objects by cluster."""

    host: list[dict[str, Any]]
    members: dict[str, list[dict[str, Any]]]


def generations(objects: Iterable[dict[str, Any]]) -> dict[str, int]:
    return {_template_key(o["kind"], o["metadata"]): o["metadata"].get("generation") for o in objects}


def by_key(objects: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {_template_key(o["kind"], o["metadata"]): o for o in objects}


def compare_objects(
    expected: list[dict[str, Any]],
    actual: list[dict[str, Any]],
    gens: tuple[dict[str, int], dict[str, int]],
    where: str,
) -> Iterator[Difference]:
    """Both sides are masked; `gens` are the template generations of each side."""
    recorded, found = by_key(expected), by_key(actual)
    for key in sorted(recorded.keys() | found.keys()):
        if key not in found:
            yield Difference(f"{where} {key}", "exists", "missing")
        elif key not in recorded:
            yield Difference(f"{where} {key}", "absent", "exists")
        else:
            one, other = (
                strip_hashes(relate_generations(recorded[key], gens[0])),
                strip_hashes(relate_generations(found[key], gens[1])),
            )
            for difference in differences(one, other):
                yield difference._replace(path=f"{where} {key} {difference.path}")
