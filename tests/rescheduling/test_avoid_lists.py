"""Avoid lists that a client writes into the annotations of nodes."""

from builders import NOON

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.node import Node
from trimtab.api.value import OwnerReference, Raw
from trimtab.client.client import Client
from trimtab.clock import LoopClock, run_virtually
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION, AvoidEntry, PodSignature, encode_entries
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.rescheduling.avoid_lists import NODES, AvoidLists
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

EXPIRED = AvoidEntry(
    eviction_time=NOON.replace(hour=1),
    expiry=NOON.replace(hour=2),
    pod_signature=PodSignature(pod_controller=OwnerReference("apps/v1", "ReplicaSet", "web", "u1")),
)


def run_removal(*, changed_meanwhile: bool) -> str:
    """Remove expired entries from a node; returns its list afterwards."""

    async def run() -> str:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        client: Client = LocalClient(server)
        annotations = {AVOID_PODS_ANNOTATION: encode_entries((EXPIRED,))}
        node: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": annotations}}
        read = kind_of(Node).decode(await client.create(NODES, node))
        if changed_meanwhile:
            await client.patch(NODES, "", "n1", {"metadata": {"annotations": {AVOID_PODS_ANNOTATION: "newer"}}})
        lists = AvoidLists(client, EventRecorder(client))
        assert isinstance(read, Node)
        await lists.remove_expired(ClusterObjects((read,), ()), NOON)
        found = await client.get(NODES, "", "n1")
        await server.stop()
        return str((found["metadata"].get("annotations") or {}).get(AVOID_PODS_ANNOTATION, ""))

    return run_virtually(run())


def test_expired_entries_are_removed() -> None:
    assert run_removal(changed_meanwhile=False) == ""


def test_list_that_another_process_changed_is_not_overwritten() -> None:
    assert run_removal(changed_meanwhile=True) == "newer"
