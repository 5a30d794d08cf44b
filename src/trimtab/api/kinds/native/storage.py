"""Storage kinds: claims, volumes, classes, attachments, and the capabilities of CSI drivers."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import storage as storage_defaults
from trimtab.api.kinds.native.pod import NodeSelector
from trimtab.api.kinds.native.rules import storage
from trimtab.api.value import Object, QuantityText, Value


class VolumeResourceRequirements(Value):
    requests: dict[str, QuantityText] = {}
    limits: dict[str, QuantityText] = {}


class PersistentVolumeClaimSpec(Value):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None


class PersistentVolumeClaimStatus(Value):
    phase: str = ""
    capacity: dict[str, QuantityText] = {}


@kind(
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    short=["pvc"],
    status=True,
    custom=False,
    defaults=[storage_defaults.persistent_volume_claim],
    validators=[storage.check_persistent_volume_claim],
)
class PersistentVolumeClaim(Object):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Value):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Value):
    capacity: dict[str, QuantityText] = {}
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""


@kind(
    group="",
    version="v1",
    plural="persistentvolumes",
    short=["pv"],
    namespaced=False,
    status=True,
    custom=False,
    defaults=[storage_defaults.persistent_volume],
    validators=[storage.check_persistent_volume],
)
class PersistentVolume(Object):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


@kind(
    group="storage.k8s.io",
    version="v1",
    plural="storageclasses",
    short=["sc"],
    namespaced=False,
    custom=False,
    defaults=[storage_defaults.storage_class],
    validators=[storage.check_storage_class],
)
class StorageClass(Object):
    provisioner: str = ""
    volume_binding_mode: str | None = None


@kind(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattachments",
    namespaced=False,
    status=True,
    custom=False,
    validators=[storage.check_volume_attachment],
)
class VolumeAttachment(Object):
    """No typed fields: nothing here reads them."""


@kind(
    group="storage.k8s.io",
    version="v1",
    plural="csidrivers",
    namespaced=False,
    custom=False,
    name="CSIDriver",
    validators=[storage.check_csi_driver],
)
class CsiDriver(Object):
    """No typed fields: nothing here reads them."""


@kind(group="storage.k8s.io", version="v1", plural="csinodes", namespaced=False, custom=False, name="CSINode")
class CsiNode(Object):
    """No typed fields: nothing here reads them."""


@kind(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    custom=False,
    name="CSIStorageCapacity",
    validators=[storage.check_csi_storage_capacity],
)
class CsiStorageCapacity(Object):
    """No typed fields: nothing here reads them."""
