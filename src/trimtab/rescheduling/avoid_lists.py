"""Maintains avoid lists on API servers whose eviction does not: the same node annotation, patched by a client."""

import contextlib
from datetime import datetime, timedelta

from trimtab.api.value import OwnerReference, Raw
from trimtab.client.client import Client, Resource
from trimtab.controllers.contract import RecordEvent
from trimtab.controllers.well_known import ref_of_raw
from trimtab.decide.pods.avoid_list import (
    AVOID_PODS_ANNOTATION,
    DEFAULT_AVOID_TIME,
    MAX_AVOID_TIME_UNTIL_SCHEDULED,
    MAX_ENTRIES,
    AvoidEntry,
    PodSignature,
    active_entries,
    add_entry,
    encode_entries,
    entries_dropped_for_space,
    entries_of,
    is_avoided_by,
)
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.move_simulation import PlannedMove
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.errors import ApiError
from trimtab.runtime.effects.event_recorder import EventRecorder

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
WRITER = "trimtab-rescheduler"
DUPLICATE_WINDOW = timedelta(minutes=1)
LISTED_OWNER_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")


class AvoidLists:
    """The avoid lists of one cluster, in the annotations of its nodes."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client, self._recorder = client, recorder

    async def add(self, move: PlannedMove, snapshot: ReschedulingSnapshot) -> None:
        """Add the pod's owner to the avoid list of the node, unless the eviction itself has done so."""
        owner = move.pod.pod.controller
        if owner is None or not move.source:
            return
        with contextlib.suppress(ApiError):
            node = await self._client.get(NODES, "", move.source)
            entries = entries_of(node["metadata"].get("annotations") or {})
            entry = _entry(move, owner, snapshot)
            fresh = [one for one in entries if (one.eviction_time or snapshot.now) >= snapshot.now - DUPLICATE_WINDOW]
            if not is_avoided_by(fresh, entry.uids, snapshot.now):
                kept = add_entry(entries, entry, snapshot.now)
                await self._write(move.source, kept, node["metadata"]["resourceVersion"])
                for one in entries_dropped_for_space(entries, kept, snapshot.now):
                    self._recorder.record(_list_full_event(node, one), snapshot.now)

    async def remove_expired(self, objects: ClusterObjects, now: datetime) -> None:
        """Remove entries that ended: by time, with the owner, or because the other pod has its node."""
        owners = {one.metadata.uid for one in (*objects.deployments, *objects.sets)}
        waiting = {one.metadata.uid for one in objects.pods if not one.spec.node_name}
        for node in objects.nodes:
            entries = entries_of(node.metadata.annotations)
            kept = active_entries(entries, now, lambda one: _owner_exists(one, owners), waiting.__contains__)
            if kept != entries:
                with contextlib.suppress(ApiError):
                    await self._write(node.name, kept, node.metadata.resource_version)

    async def _write(self, node: str, entries: tuple[AvoidEntry, ...], revision: str) -> None:
        """Write the list for the version that was read: another process may have added an entry since."""
        annotations = {AVOID_PODS_ANNOTATION: encode_entries(entries)}
        body: Raw = {"metadata": {"annotations": annotations, **({"resourceVersion": revision} if revision else {})}}
        await self._client.patch(NODES, "", node, body, manager=WRITER)


def _list_full_event(node: Raw, forgotten: AvoidEntry) -> RecordEvent:
    whose = forgotten.pod_signature.pod_controller
    message = f"{MAX_ENTRIES} owners avoid this node; {whose.kind} {whose.name} was removed from the list"
    return RecordEvent(
        ref_of_raw({"apiVersion": "v1", "kind": "Node", **node}), "AvoidListFull", message, WRITER, "Warning"
    )


def _owner_exists(entry: AvoidEntry, owners: set[str]) -> bool:
    return entry.pod_signature.pod_controller.kind not in LISTED_OWNER_KINDS or not entry.uids.isdisjoint(owners)


def _entry(move: PlannedMove, owner: OwnerReference, snapshot: ReschedulingSnapshot) -> AvoidEntry:
    life = MAX_AVOID_TIME_UNTIL_SCHEDULED if move.for_pod else DEFAULT_AVOID_TIME
    return AvoidEntry(
        pod_signature=PodSignature(pod_controller=owner),
        root_uid=snapshot.owners.of(move.pod.pod).uid,
        eviction_time=snapshot.now,
        reason=move.objective,
        message=move.reason,
        expiry=snapshot.now + life,
        until_pod_scheduled=move.for_pod,
        seconds=0 if move.for_pod else int(life.total_seconds()),
    )
