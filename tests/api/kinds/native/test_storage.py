from api.kinds.kind_helpers import decode
from trimtab.api.kind import find_kind, kind_of
from trimtab.api.kinds.native.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)


def test_empty_storage_class_differs_from_a_missing_one() -> None:
    missing = decode(PersistentVolumeClaim, {"metadata": {"name": "c"}})
    empty = decode(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": {"storageClassName": ""}})
    assert missing.spec.storage_class_name is None
    assert empty.spec.storage_class_name == ""


def test_volume_keeps_the_nodes_it_is_bound_to() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volume = decode(PersistentVolume, {"metadata": {"name": "v"}, "spec": {"nodeAffinity": affinity}})
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    assert volume.spec.node_affinity.required.matches({"zone": "a"}, {})
    assert not volume.spec.node_affinity.required.matches({"zone": "b"}, {})


def test_csi_kinds_are_served_under_their_kubernetes_names() -> None:
    assert find_kind("storage.k8s.io/v1", "CSIDriver") is kind_of(CsiDriver)
    assert find_kind("storage.k8s.io/v1", "CSINode") is kind_of(CsiNode)
    assert find_kind("storage.k8s.io/v1", "CSIStorageCapacity") is kind_of(CsiStorageCapacity)
