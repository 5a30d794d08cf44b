"""Reads and draws the id of the control plane of a host."""

import uuid
from collections.abc import Iterable

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.control_plane_identity import (
    DRAWN_ID,
    FORMER_IDS,
    ID_NAMESPACE,
    ControlPlaneIdentity,
    identity_of,
)

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


async def read_identity(host: Client) -> ControlPlaneIdentity:
    return _identity((await host.get(NAMESPACES, "", ID_NAMESPACE))["metadata"])


async def draw_identity(host: Client, take_over: Iterable[str] = ()) -> ControlPlaneIdentity:
    """Give the control plane of a host a new id; what carries one of its earlier ids, or of those to take over, stays its own."""
    metadata = (await host.get(NAMESPACES, "", ID_NAMESPACE))["metadata"]
    before, drawn = _identity(metadata), str(uuid.uuid4())
    return await _store(host, metadata, {DRAWN_ID: drawn}, {before.own, *before.former, *take_over})


async def add_former_ids(host: Client, ids: Iterable[str]) -> ControlPlaneIdentity:
    """Let the control plane of a host take over what carries these ids."""
    metadata = (await host.get(NAMESPACES, "", ID_NAMESPACE))["metadata"]
    return await _store(host, metadata, {}, {*_identity(metadata).former, *ids})


async def _store(host: Client, metadata: Raw, change: dict[str, str], former: set[str]) -> ControlPlaneIdentity:
    annotations = {**change, FORMER_IDS: ",".join(sorted(former))}
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": annotations}}
    stored = await host.patch(NAMESPACES, "", ID_NAMESPACE, body, manager="trimtab-restore")
    return _identity(stored["metadata"])


def _identity(metadata: Raw) -> ControlPlaneIdentity:
    return identity_of(metadata["uid"], metadata.get("annotations") or {})
