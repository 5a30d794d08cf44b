"""Owners of pods inside a cluster, and how many pods they want."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.value import OwnerReference, Raw
from trimtab.controllers.contract import Ref, View
from trimtab.decide.pods.budgets.budget import OwnerController
from trimtab.decide.pods.budgets.scalable_kinds import CRD, ScalableKind, scalable_kinds_of

SURGED_ANNOTATION = "trimtab.dev/drain-surge-replicas"
"""On a workload: replicas that a drain added temporarily so that the pods it evicts have replacements."""
ScaledWorkload = Deployment | ReplicaSet | StatefulSet | ReplicationController
SCALED_TYPES: tuple[type[ScaledWorkload], ...] = (ReplicaSet, StatefulSet, ReplicationController, Deployment)


def controllers_in(namespace: str, view: View) -> dict[str, OwnerController]:
    """Every object that sets a number of pods, by uid."""
    found: dict[str, OwnerController] = {}
    for type_ in SCALED_TYPES:
        owners: Sequence[ScaledWorkload] = view.all(type_, namespace)
        for one in owners:
            above = next((owner.uid for owner in one.metadata.owner_references if owner.controller), "")
            found[one.metadata.uid] = OwnerController(one.metadata.uid, kind_of(one).name, replicas_of(one), above)
    for kind in custom_scalable_kinds(view):
        for raw in view.raws(kind.api_version, kind.kind, namespace):
            uid, wanted = raw["metadata"]["uid"], kind.replicas(raw)
            if wanted is not None:
                found[uid] = OwnerController(uid, kind.kind, wanted, "")
    return found


def custom_scalable_kinds(view: View) -> Iterator[ScalableKind]:
    """Custom resource kinds with a scale subresource."""
    return scalable_kinds_of(view.raws(*CRD))


class CustomOwner(NamedTuple):
    """A custom resource that owns pods, and its kind; `raw` is None if it is not in the cache yet."""

    kind: ScalableKind
    raw: Raw | None


def custom_owner(owner: OwnerReference | None, namespace: str, view: View) -> CustomOwner | None:
    """The owner, if it is a custom resource that can be scaled."""
    kind = next((one for one in custom_scalable_kinds(view) if owner is not None and one.is_kind_of(owner)), None)
    if owner is None or kind is None:
        return None
    return CustomOwner(
        kind, view.raw(Ref(kind.api_version, kind.kind, namespace if kind.namespaced else "", owner.name))
    )


def replicas_of(owner: ScaledWorkload) -> int:
    """Replicas without those that a drain added: budgets are computed from the user's own number."""
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    added = owner.metadata.annotations.get(SURGED_ANNOTATION, "")
    return max(0, wanted - int(added)) if added.isdecimal() else wanted
