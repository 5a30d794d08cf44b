"""Who owns pods inside a cluster, and how many pods they want."""

from collections.abc import Sequence

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.controllers.contract import View
from trimtab.decide.budget import Controller

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
    return found


def replicas_of(owner: Scaled) -> int:
    """How many pods it wants for its own sake: replicas that a drain added for a while ask for no strength."""
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    added = owner.metadata.annotations.get(SURGED, "")
    return max(0, wanted - int(added)) if added.isdecimal() else wanted
