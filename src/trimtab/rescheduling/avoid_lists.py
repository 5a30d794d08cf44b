"""Maintains avoid lists on API servers whose eviction does not: the same node annotation, patched by a client."""

import contextlib
from datetime import datetime, timedelta

from trimtab.api.value import OwnerReference, Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.contract import Note
from trimtab.controllers.well_known import ref_of_raw
from trimtab.decide.pods.avoid_list import (
    ANNOTATION,
    LONG,
    MOST,
    SHORT,
    Avoidance,
    Signature,
    added,
    avoids,
    crowded_out,
    entries_of,
    still_meant,
    text_of,
)
from trimtab.decide.rescheduling.move_simulation import Move
from trimtab.decide.rescheduling.snapshot import Facts, Picture
from trimtab.errors import ApiFault
from trimtab.runtime.event_recorder import Recorder

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
WRITER = "trimtab-rescheduler"
JUST_NOW = timedelta(minutes=1)
LOOKED_UP = ("Deployment", "ReplicaSet", "StatefulSet")


class AvoidLists:
    """The avoid lists of one cluster, in the annotations of its nodes."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client, self._recorder = client, recorder

    async def add(self, move: Move, picture: Picture) -> None:
        """Add the pod's owner to the avoid list of the node, unless the eviction itself has done so."""
        owner = move.pod.pod.controller
        if owner is None or not move.source:
            return
        with contextlib.suppress(ApiFault):
            node = await self._client.get(NODES, "", move.source)
            entries = entries_of(node["metadata"].get("annotations") or {})
            entry = _entry(move, owner, picture)
            fresh = [one for one in entries if (one.eviction_time or picture.now) >= picture.now - JUST_NOW]
            if not avoids(fresh, entry.uids, picture.now):
                kept = added(entries, entry, picture.now)
                await self._write(move.source, kept)
                for one in crowded_out(entries, kept, picture.now):
                    self._recorder.tell(_full(node, one), picture.now)

    async def tidy(self, facts: Facts, now: datetime) -> None:
        """Remove entries that ended: by time, with the owner, or because the other pod has its node."""
        owners = {one.metadata.uid for one in (*facts.deployments, *facts.sets)}
        waiting = {one.metadata.uid for one in facts.pods if not one.spec.node_name}
        for node in facts.nodes:
            entries = entries_of(node.metadata.annotations)
            kept = still_meant(entries, now, lambda one: _exists(one, owners), waiting.__contains__)
            if kept != entries:
                with contextlib.suppress(ApiFault):
                    await self._write(node.name, kept)

    async def _write(self, node: str, entries: tuple[Avoidance, ...]) -> None:
        body = {"metadata": {"annotations": {ANNOTATION: text_of(entries)}}}
        await self._client.patch(NODES, "", node, body, manager=WRITER)


def _full(node: Raw, forgotten: Avoidance) -> Note:
    whose = forgotten.pod_signature.pod_controller
    message = f"{MOST} owners avoid this node; {whose.kind} {whose.name} no longer does, to make room"
    return Note(ref_of_raw({"apiVersion": "v1", "kind": "Node", **node}), "AvoidListFull", message, WRITER, "Warning")


def _exists(entry: Avoidance, owners: set[str]) -> bool:
    return entry.pod_signature.pod_controller.kind not in LOOKED_UP or not entry.uids.isdisjoint(owners)


def _entry(move: Move, owner: OwnerReference, picture: Picture) -> Avoidance:
    life = SHORT if move.until else LONG
    return Avoidance(
        pod_signature=Signature(pod_controller=owner),
        root_uid=picture.owner(move.pod.pod).uid,
        eviction_time=picture.now,
        reason=move.objective,
        message=move.reason,
        expiry=picture.now + life,
        until_pod_scheduled=move.until,
        seconds=0 if move.until else int(life.total_seconds()),
    )
