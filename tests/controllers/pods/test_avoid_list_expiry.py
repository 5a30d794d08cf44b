"""Expiry of entries in the avoid lists of nodes."""

from datetime import timedelta
from typing import Any

import msgspec
from builders import NOON
from pod_builders import node, pod
from views import FakeView

from trimtab.api.kinds.native.apps import Deployment
from trimtab.api.kinds.native.node import Node
from trimtab.api.value import OwnerReference
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.pods.avoid_list_expiry import avoid_list_changed, avoid_list_expiry, nodes_avoided_for_pod
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION, AvoidEntry, PodSignature, encode_entries, entries_of

LATER = NOON + timedelta(minutes=5)


def entry(uid: str = "d", kind: str = "Deployment", **more: Any) -> AvoidEntry:
    owner = OwnerReference(api_version="apps/v1", kind=kind, name="web", uid=uid, controller=True)
    return AvoidEntry(pod_signature=PodSignature(pod_controller=owner), expiry=LATER).but(**more)


def node_with(*entries: AvoidEntry) -> Node:
    found = node("n1")
    return found.but(metadata=found.metadata.but(annotations={AVOID_PODS_ANNOTATION: encode_entries(entries) or ""}))


def deployment(uid: str = "d") -> Deployment:
    return msgspec.convert({"metadata": {"name": "web", "namespace": "default", "uid": uid}}, Deployment)


def kept(subject: Node, *things: Any, **options: Any) -> tuple[tuple[AvoidEntry, ...], bool]:
    """The entries after a reconcile, and whether the node is requeued."""
    effects = list(avoid_list_expiry(subject, FakeView([subject, *things], **options)))
    changed = next((effect for effect in effects if isinstance(effect, Node)), subject)
    return entries_of(changed.metadata.annotations), any(isinstance(effect, RequeueAfter) for effect in effects)


def test_an_entry_is_kept_until_it_expires() -> None:
    assert kept(node_with(entry()), deployment()) == ((entry(),), True)
    assert kept(node_with(entry()), deployment(), now=LATER) == ((), False)


def test_an_entry_is_removed_with_its_owner_but_not_for_kinds_that_are_not_watched() -> None:
    game = entry("g", "Game")
    assert kept(node_with(entry(), game)) == ((game,), True)


def test_an_entry_for_a_waiting_pod_is_removed_when_that_pod_is_scheduled() -> None:
    waiting = pod("urgent")
    waiting = waiting.but(metadata=waiting.metadata.but(uid="u"))
    bound = waiting.but(spec=waiting.spec.but(node_name="n2"))
    subject = node_with(entry(until_pod_scheduled="u"))
    assert len(kept(subject, deployment(), waiting)[0]) == 1
    assert kept(subject, deployment(), bound)[0] == ()
    assert [key.name for key in nodes_avoided_for_pod(waiting, bound, FakeView([subject, node("n3")]))] == ["n1"]
    assert list(nodes_avoided_for_pod(bound, bound, FakeView([subject]))) == []


def test_only_a_changed_avoid_list_wakes_the_node() -> None:
    assert avoid_list_changed(None, node_with(entry()))
    assert not avoid_list_changed(node_with(entry()), node_with(entry()))
    assert not avoid_list_changed(None, node("n1"))
