"""The conditions of a terminating namespace: which objects in it remain, and which finalizers keep them."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.clock import timestamp

_WITHOUT_FAULT = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Reason and message of each condition that is False."""


class RemainingContent(NamedTuple):
    """What is left in a namespace."""

    objects: Counter[str]
    """Number of objects by `resource.group`."""
    finalizers: Counter[str]
    """Number of objects by the finalizer that keeps them."""


def conditions_of(remaining: RemainingContent, present: list[Raw], now: datetime) -> list[Raw]:
    """The five conditions; one whose status stays the same keeps its time, others than these stay as they are."""
    faults = {}
    if remaining.objects:
        listed = ", ".join(
            sorted(f"{name} has {count} resource instances" for name, count in remaining.objects.items())
        )
        faults["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {listed}")
    if remaining.finalizers:
        listed = ", ".join(
            sorted(f"{name} in {count} resource instances" for name, count in remaining.finalizers.items())
        )
        message = f"Some content in the namespace has finalizers remaining: {listed}"
        faults["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    before = {one["type"]: one for one in present}
    found = [one for one in present if one["type"] not in _WITHOUT_FAULT]
    for type_, without_fault in _WITHOUT_FAULT.items():
        status = "True" if type_ in faults else "False"
        reason, message = faults.get(type_, without_fault)
        earlier = before.get(type_) or {}
        since = earlier["lastTransitionTime"] if earlier.get("status") == status else timestamp(now)
        found.append(
            {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
        )
    return found
