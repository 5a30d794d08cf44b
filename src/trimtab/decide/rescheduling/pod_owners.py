"""The owners of pods, and the pods of each owner."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from trimtab.api.kinds.native.apps import Deployment, StatefulSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects, PodOwner, ReplicaController


class PodOwners:
    """Finds the owner of a pod, and its pods."""

    def __init__(self, objects: ClusterObjects, cluster_view: ClusterView) -> None:
        self._objects = objects
        self._cluster_view = cluster_view
        self._pods: dict[str, list[Pod]] = {}

    @cached_property
    def _by_controller(self) -> dict[str, PodOwner]:
        """By the uid of the controller that pods reference."""
        tops = {one.metadata.uid: _owner_of(one) for one in self._objects.deployments}
        found = {one.uid: one for one in self._objects.other_owners}
        tops |= found
        for one in self._objects.sets:
            above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
            found[one.metadata.uid] = tops.get(above) or _owner_of(one)
        return found

    def __iter__(self) -> Iterator[PodOwner]:
        """Every owner once, sorted."""
        return iter(sorted(set(self._by_controller.values())))

    def of(self, pod: Pod) -> PodOwner:
        ref = pod.controller
        if ref is None:
            return PodOwner("", pod.name, 1, is_rolling_out=False)
        return self._by_controller.get(ref.uid) or PodOwner(ref.uid, f"{ref.kind}/{ref.name}", 0, is_rolling_out=False)

    def load_pods(self, owners: Iterable[str]) -> None:
        """Find the pods of these owners in one pass; a list for every owner of a large cluster costs too much."""
        wanted = {uid for uid in owners if uid and uid not in self._pods}
        if not wanted:
            return
        self._pods.update((uid, []) for uid in wanted)
        below = {uid: owner.uid for uid, owner in self._by_controller.items() if owner.uid in wanted}
        lists = {uid: self._pods[below.get(uid, uid)] for uid in (*wanted, *below)}
        for one in self._cluster_view.all_pods:
            if (owner_pods := lists.get(one.traits.controller_uid)) is not None:
                owner_pods.append(one.pod)

    def pods_of(self, owner: str) -> list[Pod]:
        """Every pod of this owner, whatever its phase."""
        self.load_pods([owner])
        return self._pods.get(owner, [])

    def siblings_of(self, pod: Pod) -> list[Pod]:
        return self.pods_of(self.of(pod).uid) or [pod]


def _owner_of(top: Deployment | ReplicaController) -> PodOwner:
    wanted = 1 if top.spec.replicas is None else top.spec.replicas
    rolling = top.status.observed_generation < top.metadata.generation
    if isinstance(top, Deployment):
        rolling = rolling or top.status.updated_replicas != wanted
    elif isinstance(top, StatefulSet):
        rolling = rolling or bool(
            top.status.update_revision and top.status.update_revision != top.status.current_revision
        )
    return PodOwner(top.metadata.uid, f"{type(top).__name__}/{top.name}", wanted, rolling)
