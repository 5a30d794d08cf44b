"""How workloads make pods and other children, find them again, and count those that are well."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import IntOrString, Key, Object, Raw
from trimtab.controllers.contract import Index, Make, Ref, View, Wake

SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Letters and digits that make no words."""


def _owner_uids(child: Object) -> Iterator[str]:
    for owner in child.metadata.owner_references:
        if owner.controller:
            yield owner.uid


PODS_OF = Index("pods-of", Pod, _owner_uids)
"""Pods by the uid of their controller."""
PODS_ON = Index("pods-on", Pod, lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
"""Pods by the name of their node."""


def children(type_: type[Any]) -> Index[Any]:
    """Objects of a type by the uid of their controller."""
    return Index("children-of", type_, _owner_uids)


def when_child_changes(parent: type[Object], child: type[Object]) -> Wake:
    """Wake the parent whenever one of its children changes."""
    kind = kind_of(parent)

    def keys(old: Object | None, new: Object | None, view: View) -> Iterator[Key]:
        for seen in (old, new):
            for owner in seen.metadata.owner_references if seen else ():
                if owner.controller and owner.kind == kind.name:
                    yield Key(kind.id, seen.metadata.namespace if seen else "", owner.name)

    return Wake(child, keys)


def ref(thing: Object) -> Ref:
    kind = kind_of(thing)
    return Ref(kind.api_version, kind.name, thing.metadata.namespace, thing.metadata.name, thing.metadata.uid)


def raw_of(thing: Object, view: View) -> Raw:
    """The object as it is on the wire; it is there, because `thing` was read from it."""
    raw = view.raw(ref(thing))
    if raw is None:
        raise LookupError(f"{thing.metadata.name} is no longer in the view")
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


def safe_hash(thing: Any, length: int = 10) -> str:
    """A short name for a content."""
    digest = hashlib.blake2b(orjson.dumps(thing, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(SAFE))
        letters.append(SAFE[rest])
    return "".join(letters)


def fresh_names(owner: Object, view: View, count: int) -> list[str]:
    """Names for new children: not drawn by lot, yet different at every moment."""
    return [
        f"{owner.metadata.name[:57]}-{safe_hash([owner.metadata.uid, view.now.isoformat(), number], 5)}"
        for number in range(count)
    ]


class Kid(NamedTuple):
    """What a pod gets beyond its template."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: Sequence[str] = ()
    hostname: str = ""
    subdomain: str = ""


def pod_from(template: Raw, owner: Object, kid: Kid) -> Raw:
    """A pod by this template, owned by `owner`."""
    metadata = template.get("metadata") or {}
    own: Raw = {
        "name": kid.name,
        "namespace": owner.metadata.namespace,
        "labels": {**(metadata.get("labels") or {}), **kid.labels},
        "annotations": {**(metadata.get("annotations") or {}), **kid.annotations},
        "finalizers": [*(metadata.get("finalizers") or ()), *kid.finalizers],
        "ownerReferences": [owner_reference(owner)],
        "generateName": f"{owner.metadata.name}-",
    }
    spec = {**template["spec"]}
    if kid.hostname:
        spec |= {"hostname": kid.hostname, "subdomain": kid.subdomain}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in own.items() if value},
        "spec": {key: value for key, value in spec.items() if value != ""},
    }


class Always(NamedTuple):
    """A value that is written also when it is zero or empty."""

    value: Any


def with_status(raw: Raw, status: Mapping[str, Any], annotations: Mapping[str, str] | None = None) -> Iterator[Make]:
    """The wish for another status, and for annotations that travel with it; nothing when it is so already.

    Zeros and empty lists are left out, as they are on the wire, unless they are `Always` written.
    """
    present = raw.get("status") or {}
    shown = {key: _plain(value) for key, value in status.items() if value or isinstance(value, Always)}
    if annotations is None or annotations == (raw["metadata"].get("annotations") or {}):
        metadata = raw["metadata"]
        if all(_same(key, shown, present) for key in shown.keys() | present.keys()):
            return
    else:
        metadata = {**raw["metadata"], "annotations": dict(annotations)}
    yield Make({**raw, "metadata": metadata, "status": shown}, raw, "status")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Always) else value


def _same(key: str, shown: Raw, present: Raw) -> bool:
    """Equal, or neither says anything: what is not shown may stand there as a zero."""
    if key in shown:
        return key in present and bool(shown[key] == present[key])
    return not present[key]


def living(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that count as replicas: neither finished nor leaving."""
    return [pod for pod in pods if not pod.terminal and pod.metadata.deletion_timestamp is None]


def leaving(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that have been told to go and have not ended yet."""
    return [pod for pod in pods if not pod.terminal and pod.metadata.deletion_timestamp is not None]


def ready_since(pod: Pod) -> datetime | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time
    return None


def seconds_to_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """0 when the pod is available, else how long until it is if it stays ready; None when it is not ready."""
    if not pod.ready:
        return None
    since = ready_since(pod)
    if not min_ready_seconds or since is None:
        return 0.0
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


class Tally(NamedTuple):
    """How many pods are how well."""

    ready: int
    available: int
    wait: float | None
    """Seconds until another one becomes available by itself."""


def tally(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> Tally:
    waits = [wait for pod in pods if (wait := seconds_to_available(pod, min_ready_seconds, now)) is not None]
    return Tally(len(waits), sum(wait == 0 for wait in waits), min((wait for wait in waits if wait), default=None))


def share(value: IntOrString | None, total: int, *, up: bool, default: IntOrString) -> int:
    """A count as it is, or a percentage of `total`, rounded up or down."""
    value = default if value is None else value
    if isinstance(value, str) and value.endswith("%"):
        part = int(value[:-1]) * total
        return -(-part // 100) if up else part // 100
    return int(value)


def oldest_first(things: Iterable[Any]) -> list[Any]:
    return sorted(things, key=_age)


def _age(thing: Any) -> tuple[str, str]:
    created = thing.metadata.creation_timestamp
    return (created.isoformat() if created else "", thing.metadata.name)
