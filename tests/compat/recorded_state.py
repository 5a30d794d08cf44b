"""Loads what a live Karmada left behind after a recorded step: its objects on the host and in the members, with their ids.

Recordings have masks in place of ids and times. Ids that Karmada drew at random are random here as well, so that nothing
passes only because an id equals the one that Trimtab would derive.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from compat.flows import FLOWS, RECORDED_SETTINGS, RecordedFlow, RecordedUids

from trimtab.api.profile import UPSTREAM
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import flows_fleet
from trimtab.store.store import Store

RECORDED_AT = "2026-01-01T00:00:00Z"
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
MASK = re.compile(r"<(uid|id) ([^>]*)>")


def unmasked(value: Any, uids: dict[str, str]) -> Any:
    """The value with an id or a time in place of every mask; resource versions are left out."""
    if isinstance(value, dict):
        return {key: unmasked(inner, uids) for key, inner in value.items() if inner != "<rv>"}
    if isinstance(value, list):
        return [unmasked(inner, uids) for inner in value]
    if not isinstance(value, str):
        return value
    if value == "<time>":
        return RECORDED_AT
    return MASK.sub(lambda mask: id_for(mask[1], mask[2], uids), value)


def id_for(kind: str, name: str, uids: dict[str, str]) -> str:
    recorded = uids.get(name) if kind == "uid" else None
    return recorded or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {name}"))


async def load_recorded_state(fleet: EmbeddedFleet, flow: RecordedFlow, step: int) -> None:
    """Write the objects of a step as they were, into namespaces that exist. No control plane may run meanwhile."""
    state = flow.expect["steps"][step]["state"]
    uids = flow.expect["uids"]
    await write_as_recorded(fleet.host, unmasked(state["host"], uids))
    for member in fleet.world:
        await write_as_recorded(member.server, unmasked(state["members"].get(member.name, {}), uids))


async def write_as_recorded(server: ApiServer, objects: dict[str, list[dict[str, Any]]]) -> None:
    assert await server.load(raw for listed in objects.values() for raw in listed) == []


@asynccontextmanager
async def stopped_karmada(name: str) -> AsyncIterator[EmbeddedFleet]:
    """A host and members as Karmada left them; no control plane runs."""
    clock, uids = LoopClock(), RecordedUids({})
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids)], new_uid=uids))
    await host.start()
    fleet = EmbeddedFleet(flows_fleet(), host=host, clock=clock, profile=UPSTREAM, settings=RECORDED_SETTINGS)
    await fleet.start()
    try:
        flow = RecordedFlow(FLOWS / name)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": flow.namespace}}
        await fleet.client.create(NAMESPACES, namespace)
        await asyncio.sleep(30)
        await fleet.stop_plane()
        await load_recorded_state(fleet, flow, len(flow.expect["steps"]) - 1)
        await asyncio.sleep(30)
        yield fleet
    finally:
        await fleet.stop()
        await host.stop()
