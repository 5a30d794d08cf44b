"""Trimtab takes over what a live Karmada left: it writes nothing in members and changes no placement."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from compat.flows import FLOWS, RECORDED_SETTINGS, RecordedFlow, RecordedUids, recorded_readiness
from compat.recorded_state import load_recorded_state
from compat.writes import RecordingClient

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import PROFILES
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import flows_fleet
from trimtab.store.store import Store

FLOW_FOLDERS = sorted(path.parent for path in FLOWS.glob("*/input.yaml"))
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
OBSERVED_SECONDS = 60.0


async def take_over(flow: RecordedFlow, step: int, profile: str) -> tuple[list[str], Any, Any]:
    """The writes in members after a takeover, and the placements before and after it."""
    clock, uids = LoopClock(), RecordedUids({})
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks(uids)], new_uid=uids))
    await host.start()
    notes: list[str] = []

    def record_members(client: Client, cluster: str) -> Client:
        return RecordingClient(client, cluster, notes) if cluster else client  # type: ignore[return-value]

    fleet = EmbeddedFleet(
        flows_fleet(),
        host=host,
        clock=clock,
        profile=PROFILES[profile],
        settings=RECORDED_SETTINGS,
        wrap_client=record_members,
    )
    await fleet.start()
    try:
        for member in fleet.world:
            member.kubelets.override_behaviour(recorded_readiness(member.name))
        # The recordings have no Works of namespaces; this control plane writes them before it stops.
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": flow.namespace}}
        await fleet.client.create(NAMESPACES, namespace)
        await asyncio.sleep(30)
        await fleet.stop_plane()
        await load_recorded_state(fleet, flow, step)
        await asyncio.sleep(30)
        notes.clear()
        before = await placements(fleet.client)
        await fleet.start_plane()
        await asyncio.sleep(OBSERVED_SECONDS)
        return [*notes], before, await placements(fleet.client)
    finally:
        await fleet.stop()
        await host.stop()


async def placements(client: Client) -> dict[str, Any]:
    found = {}
    for type_ in (ResourceBinding, ClusterResourceBinding):
        for raw in (await client.list(resource_of(kind_of(type_)))).items:
            metadata = raw["metadata"]
            found[f"{metadata.get('namespace', '')}/{metadata['name']}"] = raw["spec"].get("clusters")
    return found


TRIMTAB_FLOWS = (
    "clusterrole-cpp",
    "configmap-duplicated",
    "deploy-static-scale",
    "job-duplicated",
    "policy-delete",
    "propagate-deps",
    "sts-static-weight",
)
"""Flows that are also taken over in the profile `trimtab`: the kinds differ, and the profiles share the code."""


@pytest.mark.parametrize("folder", FLOW_FOLDERS, ids=lambda folder: folder.name)
def test_taking_over_writes_nothing_in_members_and_changes_no_placement(folder: Path) -> None:
    check_takeover(folder, "upstream")


@pytest.mark.parametrize("name", TRIMTAB_FLOWS)
def test_taking_over_writes_nothing_in_members_in_the_profile_trimtab(name: str) -> None:
    check_takeover(FLOWS / name, "trimtab")


def check_takeover(folder: Path, profile: str) -> None:
    flow = RecordedFlow(folder)
    notes, before, after = run_virtually(take_over(flow, len(flow.expect["steps"]) - 1, profile))
    assert after == before
    writes = [json.loads(note) for note in notes]
    assert [write[:4] for write in writes] == []
