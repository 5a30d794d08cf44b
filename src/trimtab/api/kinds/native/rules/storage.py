"""What kube-apiserver rejects in claims, volumes, StorageClasses, VolumeAttachments, CSIDrivers and CSIStorageCapacities."""

from collections.abc import Iterator, Sequence

from trimtab.api import quantity
from trimtab.api.field_errors import forbidden, invalid, not_supported, required
from trimtab.api.kinds.native.fields import message
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause


def check_persistent_volume_claim(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes", "at least 1 access mode is required"))
    requests = object_at(spec, "resources", "requests")
    modes = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
    for mode in spec.get("accessModes") or ():
        found += common.check_one_of(mode, modes, "spec.accessModes")
    if "storage" not in requests:
        found.append(required("spec.resources[storage]"))
    elif quantity.parse_quantity(requests["storage"]) <= 0:
        found.append(invalid("spec.resources[storage]", str(requests["storage"]), "must be greater than zero"))
    if old is not None:
        is_bound = object_at(old, "status").get("phase") == "Bound"
        found += _check_claim_unchanged(spec, object_at(old, "spec"), is_bound=is_bound)
    return found


def _check_claim_unchanged(spec: Raw, old_spec: Raw, *, is_bound: bool) -> Iterator[Cause]:
    mutable = {"volumeName", "storageClassName"} | ({"resources", "volumeAttributesClassName"} if is_bound else set())
    fixed = [{key: value for key, value in part.items() if key not in mutable} for part in (spec, old_spec)]
    is_rebound = any(
        old_spec.get(key) and spec.get(key) != old_spec.get(key) for key in ("volumeName", "storageClassName")
    )
    if fixed[0] != fixed[1] or is_rebound:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", text)


def check_persistent_volume(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    sources = [key for key in spec if key in message("core.v1.PersistentVolumeSource").json_fields]
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes"))
    if not spec.get("capacity"):
        found.append(required("spec.capacity"))
    found += common.check_quantities(spec.get("capacity"), "spec.capacity")
    if not sources:
        found.append(required("spec", "must specify a volume type"))
    found += (forbidden(f"spec.{extra}", "may not specify more than 1 volume type") for extra in sources[1:])
    if old is not None and any(spec[key] != object_at(old, "spec").get(key) for key in sources):
        text = "spec.persistentvolumesource is immutable after creation"
        found.append(forbidden("spec.persistentvolumesource", text))
    return found


def check_storage_class(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    if not new.get("provisioner"):
        found.append(required("provisioner"))
    if new.get("reclaimPolicy") not in ("Delete", "Retain"):
        found.append(not_supported("reclaimPolicy", new.get("reclaimPolicy", ""), ["Delete", "Retain"]))
    binding_modes = ("Immediate", "WaitForFirstConsumer")
    found += common.check_one_of(new.get("volumeBindingMode"), binding_modes, "volumeBindingMode")
    if old is not None:
        immutable = ("parameters", "provisioner", "reclaimPolicy")
        changed = (name for name in immutable if new.get(name) != old.get(name))
        found += (forbidden(name, f"updates to {name} are forbidden.") for name in changed)
        found += common.check_unchanged(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")
    return found


def check_csi_storage_capacity(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    topology, class_name = new.get("nodeTopology"), new.get("storageClassName", "")
    if topology is not None:
        found += common.check_selector(topology, "nodeTopology")
    found += (invalid("storageClassName", class_name, fault) for fault in subdomain_faults(class_name))
    if (capacity := new.get("capacity")) is not None and quantity.is_negative(capacity):
        found.append(invalid("capacity", str(capacity), "must be greater than or equal to 0"))
    if old is not None:
        found += common.check_unchanged(topology, old.get("nodeTopology"), "nodeTopology")
        found += common.check_unchanged(class_name, old.get("storageClassName", ""), "storageClassName")
    return found


def check_volume_attachment(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    if old is not None:
        changed = spec != object_at(old, "spec")
        return [invalid("spec", spec, common.IMMUTABLE)] if changed else []
    attacher, node, source = spec.get("attacher", ""), spec.get("nodeName", ""), object_at(spec, "source")
    found = [] if attacher else [required("spec.attacher")]
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    given = sum(source.get(name) is not None for name in ("inlineVolumeSpec", "persistentVolumeName"))
    if given != 1:
        found.append(forbidden("spec.source", text) if given else required("spec.source", text))
    found += [invalid("spec.nodeName", node, fault) for fault in subdomain_faults(node)]
    return found + [invalid("spec.attacher", attacher, fault) for fault in subdomain_faults(attacher.lower())]


def check_csi_driver(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec, found = object_at(new, "spec"), list[Cause]()
    for mode in spec.get("volumeLifecycleModes") or ():
        found += common.check_one_of(mode, ("Persistent", "Ephemeral"), "spec.volumeLifecycleModes")
    if (policy := spec.get("fsGroupPolicy")) is not None:
        found += common.check_one_of(policy, ("File", "None", "ReadWriteOnceWithFSType"), "spec.fsGroupPolicy")
    return found
