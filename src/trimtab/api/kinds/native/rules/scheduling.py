"""What kube-apiserver rejects in PriorityClasses and RuntimeClasses."""

from collections.abc import Sequence

from trimtab.api.field_errors import forbidden, invalid, not_supported
from trimtab.api.kinds.native.rules import common, pods
from trimtab.api.names import label_faults
from trimtab.api.paths import object_at
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_USER_PRIORITY = 1_000_000_000


def check_priority_class(new: Raw, old: Raw | None) -> Sequence[Cause]:
    name, value = object_at(new, "metadata").get("name", ""), new.get("value", 0)
    found: list[Cause] = []
    if old is not None:
        if value != old.get("value", 0):
            found.append(forbidden("value", "may not be changed in an update."))
        found += common.check_unchanged(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
        return found
    if name.startswith("system-"):
        if name not in ("system-node-critical", "system-cluster-critical"):
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
            found.append(forbidden("metadata.name", text))
    elif value > _MAX_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        found.append(forbidden("value", text))
    policy = new.get("preemptionPolicy")
    if policy not in ("PreemptLowerPriority", "Never"):
        found.append(not_supported("preemptionPolicy", policy or "", ["PreemptLowerPriority", "Never"]))
    return found


def check_runtime_class(new: Raw, old: Raw | None) -> Sequence[Cause]:
    handler = new.get("handler", "")
    found = [invalid("handler", handler, fault) for fault in label_faults(handler)]
    for name, amount in object_at(new, "overhead", "podFixed").items():
        if parse_quantity(amount) < 0:
            found.append(invalid(f"overhead.limits[{name}]", amount, "must be greater than or equal to 0"))
    scheduling = object_at(new, "scheduling")
    found += common.check_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    found += pods.check_tolerations(scheduling.get("tolerations") or (), "scheduling.tolerations.tolerations")
    if old is not None and old.get("handler", "") != handler:
        found.append(invalid("handler", handler, common.IMMUTABLE))
    return found
