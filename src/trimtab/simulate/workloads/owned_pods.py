"""Shared parts of workload controllers: creating pods and other children, finding them, counting ready ones."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import IntOrString, Key, Object, Raw
from trimtab.controllers.contract import Ensure, Index, Ref, Trigger, View

SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Letters and digits that cannot form words."""


def _owner_uids(child: Object) -> Iterator[str]:
    for owner in child.metadata.owner_references:
        if owner.controller:
            yield owner.uid


PODS_BY_OWNER = Index("pods-of", Pod, _owner_uids)
"""Pods by the uid of their controller."""
PODS_BY_NODE = Index("pods-on", Pod, lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
"""Pods by the name of their node."""


def children_by_owner(type_: type[Any]) -> Index[Any]:
    """Objects of a type by the uid of their controller."""
    return Index("children-of", type_, _owner_uids)


def owner_trigger(parent: type[Object], child: type[Object]) -> Trigger:
    """A trigger that enqueues the owner when one of its children changes."""
    kind = kind_of(parent)

    def keys(old: Object | None, new: Object | None, view: View) -> Iterator[Key]:
        for seen in (old, new):
            for owner in seen.metadata.owner_references if seen else ():
                if owner.controller and owner.kind == kind.name:
                    yield Key(kind.id, seen.metadata.namespace if seen else "", owner.name)

    return Trigger(child, keys)


def ref_to(obj: Object) -> Ref:
    kind = kind_of(obj)
    return Ref(kind.api_version, kind.name, obj.metadata.namespace, obj.metadata.name, obj.metadata.uid)


def raw_of(obj: Object, view: View) -> Raw:
    """The object in wire form; it exists, because `obj` was read from it."""
    raw = view.raw(ref_to(obj))
    if raw is None:
        raise LookupError(f"{obj.metadata.name} is no longer in the view")
    return raw


def owner_reference(owner: Object) -> Raw:
    kind = kind_of(owner)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def safe_hash(obj: Any, length: int = 10) -> str:
    """A short hash of a JSON value."""
    digest = hashlib.blake2b(orjson.dumps(obj, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(SAFE_CHARACTERS))
        letters.append(SAFE_CHARACTERS[rest])
    return "".join(letters)


def new_child_names(owner: Object, view: View, count: int) -> list[str]:
    """Names for new children: deterministic, and different at every moment."""
    return [
        f"{owner.metadata.name[:57]}-{safe_hash([owner.metadata.uid, view.now.isoformat(), number], 5)}"
        for number in range(count)
    ]


class PodIdentity(NamedTuple):
    """Metadata and host names that a pod gets in addition to its template."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: Sequence[str] = ()
    hostname: str = ""
    subdomain: str = ""


def pod_from(template: Raw, owner: Object, identity: PodIdentity) -> Raw:
    """A pod of this template, owned by `owner`."""
    metadata = template.get("metadata") or {}
    own: Raw = {
        "name": identity.name,
        "namespace": owner.metadata.namespace,
        "labels": {**(metadata.get("labels") or {}), **identity.labels},
        "annotations": {**(metadata.get("annotations") or {}), **identity.annotations},
        "finalizers": [*(metadata.get("finalizers") or ()), *identity.finalizers],
        "ownerReferences": [owner_reference(owner)],
        "generateName": f"{owner.metadata.name}-",
    }
    spec = {**template["spec"]}
    if identity.hostname:
        spec |= {"hostname": identity.hostname, "subdomain": identity.subdomain}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in own.items() if value},
        "spec": {key: value for key, value in spec.items() if value != ""},
    }


class AlwaysWritten(NamedTuple):
    """A status value that is written even when it is zero or empty."""

    value: Any


def update_status(
    raw: Raw, status: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> Iterator[Ensure]:
    """Update the status, and annotations in the same write; no effect when nothing changes.

    Zeros and empty lists are omitted, as on the wire, unless wrapped in `AlwaysWritten`.
    """
    present = raw.get("status") or {}
    wanted = {key: _unwrap(value) for key, value in status.items() if value or isinstance(value, AlwaysWritten)}
    if annotations is None or annotations == (raw["metadata"].get("annotations") or {}):
        metadata = raw["metadata"]
        if all(_is_same_field(key, wanted, present) for key in wanted.keys() | present.keys()):
            return
    else:
        metadata = {**raw["metadata"], "annotations": dict(annotations)}
    yield Ensure({**raw, "metadata": metadata, "status": wanted}, raw, "status")


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, AlwaysWritten) else value


def _is_same_field(key: str, wanted: Raw, present: Raw) -> bool:
    """Whether the field is unchanged; an omitted field may be present as zero."""
    if key in wanted:
        return key in present and bool(wanted[key] == present[key])
    return not present[key]


def active_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that count as replicas: neither finished nor terminating."""
    return [pod for pod in pods if not pod.is_terminal and pod.metadata.deletion_timestamp is None]


def terminating_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that are being deleted and have not ended yet."""
    return [pod for pod in pods if not pod.is_terminal and pod.metadata.deletion_timestamp is not None]


def ready_since(pod: Pod) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time
    return None


def seconds_until_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """0 when the pod is available, else the seconds until it is, if it stays ready; None when it is not ready."""
    if not pod.is_ready:
        return None
    since = ready_since(pod)
    if not min_ready_seconds or since is None:
        return 0.0
    if since - now > timedelta(seconds=1):
        return 0.0  # the clock was set back: nobody knows since when, and the pod must not wait for the old time
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


class PodCounts(NamedTuple):
    """Counts of ready and available pods."""

    ready: int
    available: int
    seconds_until_next: float | None
    """Seconds until another pod becomes available."""


def count_pods(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> PodCounts:
    waits = [wait for pod in pods if (wait := seconds_until_available(pod, min_ready_seconds, now)) is not None]
    return PodCounts(len(waits), sum(wait == 0 for wait in waits), min((wait for wait in waits if wait), default=None))


def scaled_value(value: IntOrString | None, total: int, *, round_up: bool, default: IntOrString) -> int:
    """An absolute count, or a percentage of `total`, rounded up or down."""
    value = default if value is None else value
    if isinstance(value, str) and value.endswith("%"):
        part = int(value[:-1]) * total
        return -(-part // 100) if round_up else part // 100
    return int(value)


def sort_oldest_first(objects: Iterable[Any]) -> list[Any]:
    return sorted(objects, key=_creation_key)


def _creation_key(obj: Any) -> tuple[str, str]:
    created = obj.metadata.creation_timestamp
    return (created.isoformat() if created else "", obj.metadata.name)
