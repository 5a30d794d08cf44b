"""Events about evictions, written in the same transaction as the eviction."""

import hashlib
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from trimtab.api.value import Raw
from trimtab.store.keys import key_below, resource_prefix

SOURCE = "trimtab-evictions"
_EVENTS = resource_prefix("", "events")


class EventSubject(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def subject_of(obj: Raw, api_version: str, kind: str) -> EventSubject:
    metadata = obj["metadata"]
    return EventSubject(api_version, kind, metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def build_event(
    about: EventSubject,
    reason: str,
    message: str,
    now: datetime,
    *,
    kind: str = "Normal",
    related: EventSubject | None = None,
) -> tuple[str, Raw]:
    """The key and the event; the same event at the same time has the same name, so it is written once."""
    digest = hashlib.blake2b(f"{about!r}{reason}{message}{now.timestamp()!r}".encode(), digest_size=16).digest()
    name, namespace = f"{about.name}.{digest[:8].hex()}", about.namespace or "default"
    timestamp = f"{now.replace(tzinfo=None).isoformat(timespec='seconds')}Z"
    obj = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": str(UUID(bytes=digest, version=4)),
            "creationTimestamp": timestamp,
        },
        "involvedObject": _reference(about),
        **({"related": _reference(related)} if related is not None else {}),
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": SOURCE},
        "reportingComponent": SOURCE,
        "reportingInstance": "",
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "count": 1,
    }
    return key_below(_EVENTS, name, namespace), obj


def _reference(about: EventSubject) -> Raw:
    return {
        "apiVersion": about.api_version,
        "kind": about.kind,
        **({"namespace": about.namespace} if about.namespace else {}),
        "name": about.name,
        "uid": about.uid,
    }
