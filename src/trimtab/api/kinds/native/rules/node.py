"""What kube-apiserver rejects in Nodes."""

from collections.abc import Sequence
from typing import Any

from trimtab.api.field_errors import duplicate, invalid, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.names import label_value_faults, qualified_name_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_UNIQUE_TAINTS_TEXT = "taints must be unique by key and effect pair"


def check_node(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    seen: list[tuple[Any, Any]] = []
    for index, taint in enumerate(object_at(new, "spec").get("taints") or ()):
        field, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        found += [invalid(f"{field}.key", key, fault) for fault in qualified_name_faults(key)]
        value = taint.get("value", "")
        found += [invalid(f"{field}.value", value, fault) for fault in label_value_faults(value)]
        if not effect:
            found.append(required(f"{field}.effect"))
        else:
            found += common.check_one_of(effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"), f"{field}.effect")
        if (key, effect) in seen:
            go_taint = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            found.append(
                duplicate(field, go_taint)._replace(
                    message=f"{duplicate(field, go_taint).message}: {_UNIQUE_TAINTS_TEXT}"
                )
            )
        seen.append((key, effect))
    return found
