"""Defaults of volumes, in pods and for all, of claims and of storage classes."""

from trimtab.api.kinds.native.defaults.fill import Fill, fill_items, fill_member, fill_members, set_missing
from trimtab.api.value import Raw


def claim_spec(spec: Raw) -> Raw:
    return set_missing(spec, volumeMode="Filesystem")


def field_ref(source: Raw) -> Raw:
    return fill_member(source, "fieldRef", lambda ref: set_missing(ref, apiVersion="v1"))


def _default_mode(source: Raw) -> Raw:
    return set_missing(source, defaultMode=420)


def _downward_api(source: Raw) -> Raw:
    return fill_items(_default_mode(source), "items", field_ref)


def _projection(source: Raw) -> Raw:
    source = fill_member(source, "serviceAccountToken", lambda token: set_missing(token, expirationSeconds=3600))
    return fill_member(source, "downwardAPI", lambda part: fill_items(part, "items", field_ref))


def _projected_volume(source: Raw) -> Raw:
    return fill_items(_default_mode(source), "sources", _projection)


def _ephemeral_volume(source: Raw) -> Raw:
    def claim(template: Raw) -> Raw:
        return fill_member(template, "spec", claim_spec)

    return fill_member(source, "volumeClaimTemplate", claim)


_VOLUME_DEFAULTS: dict[str, Fill] = {
    "configMap": _default_mode,
    "secret": _default_mode,
    "downwardAPI": _downward_api,
    "projected": _projected_volume,
    "ephemeral": _ephemeral_volume,
    "hostPath": lambda source: set_missing(source, type=""),
    "iscsi": lambda source: set_missing(source, iscsiInterface="default"),
    "rbd": lambda source: set_missing(source, pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": lambda source: set_missing(
        source, cachingMode="ReadWrite", fsType="ext4", kind="Shared", readOnly=False
    ),
    "scaleIO": lambda source: set_missing(source, storageMode="ThinProvisioned", fsType="xfs"),
}


def volume_sources(volume: Raw) -> Raw:
    return fill_members(volume, _VOLUME_DEFAULTS)


def pod_volume(volume: Raw) -> Raw:
    if set(volume) <= {"name"}:
        return {**volume, "emptyDir": {}}
    return volume_sources(volume)


def persistent_volume_claim(obj: Raw) -> Raw:
    obj = fill_member(obj, "spec", claim_spec)
    return {**obj, "status": set_missing(obj.get("status") or {}, phase="Pending")}


def persistent_volume(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
        return volume_sources(spec)

    obj = fill_member(obj, "spec", fill)
    return {**obj, "status": set_missing(obj.get("status") or {}, phase="Pending")}


def storage_class(obj: Raw) -> Raw:
    return set_missing(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")
