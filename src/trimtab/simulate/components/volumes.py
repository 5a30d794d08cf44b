"""The volumes of a simulated cluster: claims are bound to volumes that fit, or to new ones of the cluster's own class."""

from collections.abc import Iterator
from fractions import Fraction

import msgspec

from trimtab.api.kinds.native.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trimtab.api.paths import object_at
from trimtab.api.quantity import parse_quantity
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, Trigger, View
from trimtab.simulate.components.cluster_objects import PROVISIONER
from trimtab.simulate.components.registry import component
from trimtab.simulate.workloads.owned_pods import raw_of

_BOUND_BY_CONTROLLER = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def _claims_for_volume(old: PersistentVolume | None, new: PersistentVolume | None, view: View) -> Iterator[Key]:
    """The claim of the volume, and claims without one, for which it may be right."""
    seen = new or old
    for claim in view.all(PersistentVolumeClaim):
        if seen is not None and claim.spec.volume_name in ("", seen.metadata.name):
            yield Key("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name)


def _claims_of_class(old: StorageClass | None, new: StorageClass | None, view: View) -> Iterator[Key]:
    for claim in view.all(PersistentVolumeClaim):
        if new is not None and claim.spec.storage_class_name == new.metadata.name:
            yield Key("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name)


def _volume_of_claim(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None, view: View) -> Iterator[Key]:
    if (name := (new or old or PersistentVolumeClaim()).spec.volume_name) and (old is None or old != new):
        yield Key("persistentvolumes", "", name)


def _release_volume(key: Key, view: View) -> Iterator[Effect]:
    """Delete the volume of a deleted claim."""
    for volume in view.all(PersistentVolume):
        claim = object_at(raw_of(volume, view), "spec", "claimRef")
        is_ours = volume.metadata.annotations.get(_PROVISIONED_BY) == PROVISIONER
        if is_ours and (claim.get("namespace"), claim.get("name")) == (key.namespace, key.name):
            yield Delete(volume)


@component(
    PersistentVolumeClaim,
    writes=["PersistentVolume", "metadata.annotations", "spec.volumeName", "status"],
    triggers=[Trigger(PersistentVolume, _claims_for_volume), Trigger(StorageClass, _claims_of_class)],
    on_deleted=_release_volume,
)
def claim_volumes(claim: PersistentVolumeClaim, view: View) -> Iterator[Effect]:
    if claim.metadata.deletion_timestamp is not None:
        return
    raw = raw_of(claim, view)
    if not claim.spec.volume_name:
        yield from _bind(claim, raw, view)
        return
    volume = view.get(PersistentVolume, "", claim.spec.volume_name)
    if volume is None:
        return
    found = raw_of(volume, view)
    if not _is_reserved_for(found, claim):
        if object_at(found, "spec", "claimRef"):
            return  # it belongs to another claim
        yield Ensure(_with_claim(found, claim), found)
    if claim.status.phase != "Bound":
        spec = found["spec"]
        status = {
            "phase": "Bound",
            "accessModes": spec.get("accessModes") or [],
            "capacity": spec.get("capacity") or {},
        }
        yield Ensure({**raw, "status": status}, raw, "status")


def _bind(claim: PersistentVolumeClaim, raw: Raw, view: View) -> Iterator[Effect]:
    """Reserve the smallest volume that fits, or create one, and name it in the claim."""
    candidates = [raw_of(volume, view) for volume in view.all(PersistentVolume)]
    fitting = [volume for volume in candidates if _fits(volume, claim, raw)]
    if fitting:
        volume = min(fitting, key=lambda one: (_capacity(one), one["metadata"]["name"]))
        name = volume["metadata"]["name"]
        yield Ensure(_with_claim(volume, claim), volume)
    else:
        class_name = claim.spec.storage_class_name or ""
        storage_class = view.get(StorageClass, "", class_name) if class_name else None
        if storage_class is None or storage_class.provisioner != PROVISIONER:
            return
        name = f"pvc-{claim.metadata.uid}"
        if view.get(PersistentVolume, "", name) is None:
            yield Ensure(_new_volume(claim, raw, name))
    annotations = {**object_at(raw, "metadata", "annotations"), **_BOUND_BY_CONTROLLER}
    bound = {**raw, "metadata": {**raw["metadata"], "annotations": annotations}}
    yield Ensure({**bound, "spec": {**raw["spec"], "volumeName": name}}, raw)


def _capacity(volume: Raw) -> Fraction:
    return parse_quantity(object_at(volume, "spec", "capacity").get("storage") or "0")


def _fits(volume: Raw, claim: PersistentVolumeClaim, raw: Raw) -> bool:
    spec, wanted = object_at(volume, "spec"), object_at(raw, "spec")
    if volume["metadata"].get("deletionTimestamp") or not (not spec.get("claimRef") or _is_reserved_for(volume, claim)):
        return False
    selector = wanted.get("selector")
    labels = object_at(volume, "metadata", "labels")
    storage = object_at(wanted, "resources", "requests").get("storage") or "0"
    return (
        (spec.get("storageClassName") or "") == (claim.spec.storage_class_name or "")
        and (spec.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and _capacity(volume) >= parse_quantity(storage)
        and (selector is None or msgspec.convert(selector, LabelSelector, strict=False).matches(labels))
    )


def _is_reserved_for(volume: Raw, claim: PersistentVolumeClaim) -> bool:
    reference = object_at(volume, "spec", "claimRef")
    is_named = (reference.get("namespace"), reference.get("name")) == (claim.metadata.namespace, claim.metadata.name)
    return is_named and reference.get("uid") in (None, "", claim.metadata.uid)


def _claim_reference(claim: PersistentVolumeClaim) -> Raw:
    metadata = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    }


def _with_claim(volume: Raw, claim: PersistentVolumeClaim) -> Raw:
    return {**volume, "spec": {**volume["spec"], "claimRef": _claim_reference(claim)}}


def _new_volume(claim: PersistentVolumeClaim, raw: Raw, name: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": (claim.spec.resources.requests or {}).get("storage", "1Gi")},
            "accessModes": raw["spec"].get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.storage_class_name or "",
            "volumeMode": raw["spec"].get("volumeMode") or "Filesystem",
            "claimRef": _claim_reference(claim),
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
        },
    }


@component(PersistentVolume, writes=["status"], triggers=[Trigger(PersistentVolumeClaim, _volume_of_claim)])
def volume_phase(volume: PersistentVolume, view: View) -> Iterator[Effect]:
    """Available without a claim, Bound while its claim exists, and Released afterwards."""
    raw = raw_of(volume, view)
    reference = object_at(raw, "spec", "claimRef")
    phase = "Available"
    if reference.get("uid"):
        claim = view.get(PersistentVolumeClaim, reference.get("namespace") or "", reference.get("name") or "")
        phase = "Bound" if claim is not None and claim.metadata.uid == reference["uid"] else "Released"
    if object_at(raw, "status").get("phase") != phase:
        yield Ensure({**raw, "status": {**object_at(raw, "status"), "phase": phase}}, raw, "status")
