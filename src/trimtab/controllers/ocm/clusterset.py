"""Writes the status of ManagedClusterSets and their bindings, and keeps the built-in sets."""

from collections.abc import Iterable, Iterator

import numpy as np

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_clusters import (
    CLUSTER_GROUP,
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetSpec,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Key, Meta
from trimtab.controllers.conditions import with_condition
from trimtab.controllers.contract import Effect, Trigger, View, controller
from trimtab.controllers.ocm.placement import BINDINGS_OF_SET, set_names_of
from trimtab.controllers.settings import setting
from trimtab.decide.ocm.pipeline import UnlistableClusterSet, set_members
from trimtab.decide.ocm.selectors import EXCLUSIVE

AUTO_UPDATE = f"{CLUSTER_GROUP}/autoupdate"
BUILTIN_SETS = {
    "default": ManagedClusterSelector(selector_type=EXCLUSIVE),
    "global": ManagedClusterSelector(selector_type="LabelSelector", label_selector=LabelSelector()),
}
"""The built-in sets, which always exist, and their selectors."""


def set_key(name: str) -> Key:
    return Key(kind_of(ManagedClusterSet).id, "", name)


def sets_of_cluster(old: ManagedCluster | None, new: ManagedCluster | None, view: View) -> Iterable[Key]:
    """The sets of a cluster that was created, deleted or relabelled; the first cluster creates the built-in sets."""
    if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
        return
    yield from map(set_key, set_names_of(view, old, new))
    yield from (
        set_key(name) for name in BUILTIN_SETS if new is not None and view.get(ManagedClusterSet, "", name) is None
    )


def missing_builtin_sets(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The missing built-in sets when the controllers start: every API server has the namespace `default`."""
    if old is None and new is not None and new.name == "default":
        yield from (set_key(name) for name in BUILTIN_SETS if view.get(ManagedClusterSet, "", name) is None)


def awaits_managed_clusters(view: View) -> bool:
    """Whether ManagedClusters are about to be created; with the first of them the sets are, and count them at once."""
    return bool(view.all(Cluster)) and not view.all(ManagedCluster) and bool(setting(view, "managed-cluster-sync"))


def recreate_builtin_set(key: Key, view: View) -> Iterator[Effect]:
    """Create a built-in set that is missing."""
    if key.name in BUILTIN_SETS and not awaits_managed_clusters(view):
        spec = ManagedClusterSetSpec(cluster_selector=BUILTIN_SETS[key.name])
        yield ManagedClusterSet(metadata=Meta(name=key.name), spec=spec)


@controller(
    ManagedClusterSet,
    writes=["status", "spec.clusterSelector"],
    triggers=[Trigger(ManagedCluster, sets_of_cluster), Trigger(Namespace, missing_builtin_sets)],
    on_deleted=recreate_builtin_set,
)
def clusterset(subject: ManagedClusterSet, view: View) -> Iterator[Effect]:
    if subject.metadata.deletion_timestamp is not None:
        return
    wanted = with_builtin_selector(subject)
    try:
        members = int(np.count_nonzero(set_members(wanted, view.placement_snapshot.fleet)))
    except UnlistableClusterSet:
        members = 0
    wanted = wanted.but(
        status=wanted.status.but(
            conditions=with_condition(wanted.status.conditions, cluster_set_empty_condition(members, view))
        )
    )
    if wanted != subject:
        yield wanted


def with_builtin_selector(subject: ManagedClusterSet) -> ManagedClusterSet:
    """Reset the selector of a built-in set, unless its autoupdate annotation is `false`."""
    selector = BUILTIN_SETS.get(subject.name)
    if selector is None or subject.metadata.annotations.get(AUTO_UPDATE) == "false":
        return subject
    if subject.spec.cluster_selector == selector:
        return subject
    return subject.but(spec=subject.spec.but(cluster_selector=selector))


def cluster_set_empty_condition(members: int, view: View) -> Condition:
    empty = members == 0
    return Condition(
        type="ClusterSetEmpty",
        status="True" if empty else "False",
        reason="NoClusterMatched" if empty else "ClustersSelected",
        message="No ManagedCluster selected" if empty else f"{members} ManagedClusters selected",
        last_transition_time=view.now.replace(microsecond=0),
    )


def bindings_of_set(old: ManagedClusterSet | None, new: ManagedClusterSet | None, view: View) -> Iterable[Key]:
    if old is None or new is None:
        subject = new or old or ManagedClusterSet()
        for binding in view.by_index(BINDINGS_OF_SET, subject.name):
            yield Key(kind_of(ManagedClusterSetBinding).id, binding.namespace, binding.name)


@controller(ManagedClusterSetBinding, writes=["status"], triggers=[Trigger(ManagedClusterSet, bindings_of_set)])
def clusterset_binding(binding: ManagedClusterSetBinding, view: View) -> Iterator[Effect]:
    if binding.metadata.deletion_timestamp is not None:
        return
    found = view.get(ManagedClusterSet, "", binding.spec.cluster_set) is not None
    bound = Condition(
        type="Bound",
        status="True" if found else "False",
        reason="ClusterSetBound" if found else "ClusterSetNotFound",
        last_transition_time=view.now.replace(microsecond=0),
    )
    conditions = with_condition(binding.status.conditions, bound)
    if conditions != binding.status.conditions:
        yield binding.but(status=binding.status.but(conditions=conditions))
