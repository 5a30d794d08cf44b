"""Who owns pods inside a cluster, and how many pods they want."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.value import OwnerReference, Raw
from trimtab.controllers.contract import Ref, View
from trimtab.decide.pods.budgets.budget import Controller
from trimtab.decide.pods.budgets.scalable_kinds import DEFINITION, Scalable, scalables

SURGED = "trimtab.dev/surged"
"""On a workload: how many replicas a drain has added until the pods that it waits for could go."""
Scaled = Deployment | ReplicaSet | StatefulSet | ReplicationController
SCALED: tuple[type[Scaled], ...] = (ReplicaSet, StatefulSet, ReplicationController, Deployment)


def controllers_in(namespace: str, view: View) -> dict[str, Controller]:
    """Everything that says how many pods there should be, by uid."""
    found: dict[str, Controller] = {}
    for type_ in SCALED:
        owners: Sequence[Scaled] = view.all(type_, namespace)
        for one in owners:
            above = next((owner.uid for owner in one.metadata.owner_references if owner.controller), "")
            found[one.metadata.uid] = Controller(one.metadata.uid, kind_of(one).name, replicas_of(one), above)
    for kind in scaled_kinds(view):
        for raw in view.raws(kind.api_version, kind.kind, namespace):
            uid, wanted = raw["metadata"]["uid"], kind.replicas(raw)
            if wanted is not None:
                found[uid] = Controller(uid, kind.kind, wanted, "")
    return found


def scaled_kinds(view: View) -> Iterator[Scalable]:
    """Kinds of the users' own that say how many pods they want."""
    return scalables(view.raws(*DEFINITION))


class Custom(NamedTuple):
    """An owner of a kind of the users' own: how its kind is read, and itself, unless nobody has seen it yet."""

    kind: Scalable
    raw: Raw | None


def custom_owner(owner: OwnerReference | None, namespace: str, view: View) -> Custom | None:
    """The owner, if its kind is the users' own and can be scaled."""
    kind = next((one for one in scaled_kinds(view) if owner is not None and one.owns(owner)), None)
    if owner is None or kind is None:
        return None
    return Custom(kind, view.raw(Ref(kind.api_version, kind.kind, namespace if kind.namespaced else "", owner.name)))


def replicas_of(owner: Scaled) -> int:
    """How many pods it wants for its own sake: replicas that a drain added for a while ask for no strength."""
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    added = owner.metadata.annotations.get(SURGED, "")
    return max(0, wanted - int(added)) if added.isdecimal() else wanted
