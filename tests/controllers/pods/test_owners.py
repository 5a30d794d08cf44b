"""Owners of pods and their desired replicas."""

from typing import Any

import msgspec
import pytest
from views import FakeView

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.controllers.pods.owners import SURGED_ANNOTATION, controllers_in, replicas_of


def deployment(replicas: int | None, **annotations: str) -> Deployment:
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    metadata = {"name": "web", "namespace": "default", "uid": "d", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Deployment)


@pytest.mark.parametrize(
    ("replicas", "surged", "wanted"), [(4, "", 4), (None, "", 1), (4, "1", 3), (1, "2", 0), (4, "some", 4)]
)
def test_replicas_that_a_drain_added_are_not_counted(replicas: int | None, surged: str, wanted: int) -> None:
    assert replicas_of(deployment(replicas, **{SURGED_ANNOTATION: surged})) == wanted


def test_controllers_are_found_by_uid_with_their_own_owner() -> None:
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    metadata = {"name": "web-1", "namespace": "default", "uid": "rs", "ownerReferences": [above]}
    replica_set = msgspec.convert({"metadata": metadata, "spec": {"replicas": 2}}, ReplicaSet)
    found = controllers_in("default", FakeView([deployment(2), replica_set]))
    assert {uid: (one.kind, one.replicas) for uid, one in found.items()} == {
        "d": ("Deployment", 2),
        "rs": ("ReplicaSet", 2),
    }
    assert found["rs"].controller_uid == "d"
    assert controllers_in("other", FakeView([deployment(2)])) == {}
