"""Removes entries from avoid lists of nodes when they expire, their owner is gone, or the waiting pod is scheduled."""

from collections.abc import Iterable, Iterator
from typing import Any

from trimtab.api.kind import key_of, kind_of
from trimtab.api.kinds.native.apps import DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.kinds.native.batch import Job
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Object
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, Index, RequeueAfter, Trigger, View
from trimtab.controllers.pods.registry import member_controller
from trimtab.decide.pods.avoid_list import (
    AVOID_PODS_ANNOTATION,
    MAX_ENTRIES,
    AvoidEntry,
    active_entries,
    encode_entries,
    entries_of,
    limit_entries,
)

SWEEP_SECONDS = 30.0
OWNERS: tuple[type[Object], ...] = (Deployment, ReplicaSet, StatefulSet, ReplicationController, DaemonSet, Job)
KNOWN_KINDS = frozenset(kind_of(type_).name for type_ in OWNERS)


def by_uid(type_: type[Object]) -> Index[Any]:
    return Index("by uid", type_, lambda one: (one.metadata.uid,))


def nodes_avoided_for_pod(old: Pod | None, new: Pod | None, view: View) -> Iterable[Key]:
    """Wake the nodes that are avoided for the sake of a pod that is now scheduled or deleted."""
    if old is not None and not old.spec.node_name and (new is None or new.spec.node_name):
        yield from (
            key_of(node)
            for node in view.all(Node)
            if old.metadata.uid in node.metadata.annotations.get(AVOID_PODS_ANNOTATION, "")
        )


def avoid_list_changed(old: Node | None, new: Node) -> bool:
    return AVOID_PODS_ANNOTATION in new.metadata.annotations and (
        old is None
        or old.metadata.annotations.get(AVOID_PODS_ANNOTATION) != new.metadata.annotations.get(AVOID_PODS_ANNOTATION)
    )


@member_controller(
    Node,
    name="avoidance",
    writes=["metadata.annotations"],
    triggers=[Trigger(Pod, nodes_avoided_for_pod)],
    predicate=avoid_list_changed,
)
def avoid_list_expiry(node: Node, view: View) -> Iterator[Effect]:
    entries = entries_of(node.metadata.annotations)
    if not entries:
        return
    kept = limit_entries(
        active_entries(entries, view.now, lambda one: owner_exists(one, view), lambda uid: is_unscheduled(uid, view)),
        view.now,
        MAX_ENTRIES,
    )
    if kept != entries:
        annotations = well_known.with_changes(node.metadata.annotations, {AVOID_PODS_ANNOTATION: encode_entries(kept)})
        yield node.but(metadata=node.metadata.but(annotations=annotations))
    if kept:
        yield RequeueAfter(SWEEP_SECONDS)


def owner_exists(entry: AvoidEntry, view: View) -> bool:
    """Whether the owner, or its own owner, still exists; true for kinds that are not watched."""
    if entry.pod_signature.pod_controller.kind not in KNOWN_KINDS:
        return True
    return any(view.by_index(by_uid(type_), uid) for type_ in OWNERS for uid in entry.uids)


def is_unscheduled(uid: str, view: View) -> bool:
    """Whether this pod still has no node."""
    return any(not pod.spec.node_name for pod in view.by_index(by_uid(Pod), uid))
