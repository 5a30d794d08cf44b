"""The volume provisioner of a simulated cluster: claims of its class get a PersistentVolume and are bound at once."""

from collections.abc import Iterator

from trimtab.api.kinds.native.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, Trigger, View
from trimtab.simulate.components.cluster_objects import PROVISIONER
from trimtab.simulate.components.registry import component
from trimtab.simulate.workloads.owned_pods import raw_of


def _claim_of_volume(old: PersistentVolume | None, new: PersistentVolume | None, view: View) -> Iterator[Key]:
    for claim in view.all(PersistentVolumeClaim):
        seen = new or old
        if seen is not None and claim.spec.volume_name == seen.metadata.name:
            yield Key("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name)


def _claims_of_class(old: StorageClass | None, new: StorageClass | None, view: View) -> Iterator[Key]:
    for claim in view.all(PersistentVolumeClaim):
        if new is not None and claim.spec.storage_class_name == new.metadata.name:
            yield Key("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name)


def _release_volume(key: Key, view: View) -> Iterator[Effect]:
    """Delete the volume of a deleted claim."""
    for volume in view.all(PersistentVolume):
        claim = (raw_of(volume, view)["spec"].get("claimRef")) or {}
        is_ours = volume.metadata.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
        if is_ours and (claim.get("namespace"), claim.get("name")) == (key.namespace, key.name):
            yield Delete(volume)


@component(
    PersistentVolumeClaim,
    writes=["PersistentVolume", "spec.volumeName", "status"],
    triggers=[Trigger(PersistentVolume, _claim_of_volume), Trigger(StorageClass, _claims_of_class)],
    on_deleted=_release_volume,
)
def claim_volumes(claim: PersistentVolumeClaim, view: View) -> Iterator[Effect]:
    if claim.metadata.deletion_timestamp is not None:
        return
    raw = raw_of(claim, view)
    class_name = claim.spec.storage_class_name or ""
    storage_class = view.get(StorageClass, "", class_name) if class_name else None
    if not claim.spec.volume_name:
        if storage_class is None or storage_class.provisioner != PROVISIONER:
            return
        name = f"pvc-{claim.metadata.uid}"
        if view.get(PersistentVolume, "", name) is None:
            yield Ensure(_new_volume(claim, raw, name))
        yield Ensure({**raw, "spec": {**raw["spec"], "volumeName": name}}, raw)
        return
    volume = view.get(PersistentVolume, "", claim.spec.volume_name)
    if volume is not None and claim.status.phase != "Bound":
        status = {
            "phase": "Bound",
            "accessModes": raw["spec"].get("accessModes") or [],
            "capacity": raw_of(volume, view)["spec"].get("capacity") or {},
        }
        yield Ensure({**raw, "status": status}, raw, "status")


def _new_volume(claim: PersistentVolumeClaim, raw: Raw, name: str) -> Raw:
    metadata = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": {"storage": (claim.spec.resources.requests or {}).get("storage", "1Gi")},
            "accessModes": raw["spec"].get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.storage_class_name or "",
            "volumeMode": raw["spec"].get("volumeMode") or "Filesystem",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
        },
    }
