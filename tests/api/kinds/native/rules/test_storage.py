import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

CLAIM: Raw = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
VOLUME: Raw = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}},
}
STORAGE_CLASS: Raw = {"metadata": {"name": "s"}, "provisioner": "x.io/y"}
IMMUTABLE_CLAIM = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def test_valid_claim_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "PersistentVolumeClaim", CLAIM) == ""
    assert validation_error("v1", "PersistentVolumeClaim", CLAIM, CLAIM) == ""


def test_valid_volume_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "PersistentVolume", VOLUME) == ""
    assert validation_error("v1", "PersistentVolume", VOLUME, VOLUME) == ""


def test_valid_storage_class_is_accepted_on_create_and_update() -> None:
    assert validation_error("storage.k8s.io/v1", "StorageClass", STORAGE_CLASS) == ""
    assert validation_error("storage.k8s.io/v1", "StorageClass", STORAGE_CLASS, STORAGE_CLASS) == ""


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (("accessModes",), [], "spec.accessModes: Required value: at least 1 access mode is required"),
        (("resources",), {}, "spec.resources[storage]: Required value"),
        (
            ("resources", "requests", "storage"),
            "0",
            'spec.resources[storage]: Invalid value: "0": must be greater than zero',
        ),
    ],
)
def test_invalid_claim_is_rejected(path: tuple[str, ...], value: object, error: str) -> None:
    assert validation_error("v1", "PersistentVolumeClaim", with_change(CLAIM, "spec", *path, to=value)) == error


def test_requested_size_may_change_for_bound_claims_only() -> None:
    larger = with_change(CLAIM, "spec", "resources", "requests", "storage", to="2Gi")
    assert validation_error("v1", "PersistentVolumeClaim", larger, CLAIM) == IMMUTABLE_CLAIM
    bound = {**CLAIM, "status": {"phase": "Bound"}}
    assert validation_error("v1", "PersistentVolumeClaim", larger, bound) == ""


def test_volume_of_a_claim_may_be_set_but_not_changed() -> None:
    named = with_change(CLAIM, "spec", "volumeName", to="a")
    assert validation_error("v1", "PersistentVolumeClaim", named, CLAIM) == ""
    renamed = with_change(CLAIM, "spec", "volumeName", to="b")
    assert validation_error("v1", "PersistentVolumeClaim", renamed, named) == IMMUTABLE_CLAIM


def test_volume_needs_exactly_one_source() -> None:
    assert validation_error("v1", "PersistentVolume", with_change(VOLUME, "spec", "hostPath", to=None)) == (
        "spec: Required value: must specify a volume type"
    )
    two = with_change(VOLUME, "spec", "nfs", to={"server": "s", "path": "/"})
    assert validation_error("v1", "PersistentVolume", two).endswith(
        "Forbidden: may not specify more than 1 volume type"
    )


def test_source_of_a_volume_is_immutable() -> None:
    moved = with_change(VOLUME, "spec", "hostPath", "path", to="/y")
    assert validation_error("v1", "PersistentVolume", moved, VOLUME) == (
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
    )


def test_storage_class_needs_a_provisioner_that_never_changes() -> None:
    assert validation_error("storage.k8s.io/v1", "StorageClass", {"metadata": {"name": "s"}}) == (
        "provisioner: Required value"
    )
    changed = with_change(STORAGE_CLASS, "provisioner", to="x.io/z")
    assert validation_error("storage.k8s.io/v1", "StorageClass", changed, STORAGE_CLASS) == (
        "provisioner: Forbidden: updates to provisioner are forbidden."
    )


def test_topology_and_class_of_a_storage_capacity_are_immutable() -> None:
    capacity = {"metadata": {"name": "c", "namespace": "n"}, "storageClassName": "fast", "capacity": "1Gi"}
    assert validation_error("storage.k8s.io/v1", "CSIStorageCapacity", capacity) == ""
    assert validation_error("storage.k8s.io/v1", "CSIStorageCapacity", {**capacity, "capacity": "2Gi"}, capacity) == ""
    assert validation_error(
        "storage.k8s.io/v1", "CSIStorageCapacity", {**capacity, "storageClassName": "x"}, capacity
    ) == ('storageClassName: Invalid value: "x": field is immutable')
    assert validation_error("storage.k8s.io/v1", "CSIStorageCapacity", {**capacity, "capacity": "-1"}) == (
        'capacity: Invalid value: "-1": must be greater than or equal to 0'
    )


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ({"persistentVolumeName": "p"}, ""),
        ({}, "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
        (
            {"persistentVolumeName": "p", "inlineVolumeSpec": {}},
            "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        ),
    ],
)
def test_volume_attachments_are_checked(source: Raw, error: str) -> None:
    new = {"metadata": {"name": "v"}, "spec": {"attacher": "a", "nodeName": "n", "source": source}}
    assert validation_error("storage.k8s.io/v1", "VolumeAttachment", new) == error
    without = {"metadata": {"name": "v"}, "spec": {"source": source}}
    found = validation_error("storage.k8s.io/v1", "VolumeAttachment", without)
    assert "spec.attacher: Required value" in found
    assert 'spec.nodeName: Invalid value: ""' in found
    changed = {**new, "spec": {**new["spec"], "nodeName": "m"}}
    assert "field is immutable" in validation_error("storage.k8s.io/v1", "VolumeAttachment", changed, new)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "File"}, ""),
        (
            {"volumeLifecycleModes": ["X"]},
            'spec.volumeLifecycleModes: Unsupported value: "X": supported values: "Persistent", "Ephemeral"',
        ),
        (
            {"fsGroupPolicy": "X"},
            'spec.fsGroupPolicy: Unsupported value: "X": supported values: "File", "None", "ReadWriteOnceWithFSType"',
        ),
    ],
)
def test_csi_drivers_are_checked(spec: Raw, error: str) -> None:
    assert validation_error("storage.k8s.io/v1", "CSIDriver", {"metadata": {"name": "d"}, "spec": spec}) == error
