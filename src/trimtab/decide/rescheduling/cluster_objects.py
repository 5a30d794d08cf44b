"""The objects of a cluster that a round of the rescheduler reads."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.budgets.pod_budgets import PodBudget
from trimtab.decide.pods.metrics.measurements import UsageMetrics

ReplicaController = ReplicaSet | StatefulSet


class PodOwner(NamedTuple):
    """The top-level owner of pods: the Deployment rather than its ReplicaSets."""

    uid: str
    name: str
    replicas: int
    """The desired number; 0 when it is not known."""
    is_rolling_out: bool
    """A rollout is in progress, or the controller has not observed the latest generation."""


class ClusterObjects(NamedTuple):
    """The objects that a snapshot is built from."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    deployments: Sequence[Deployment] = ()
    sets: Sequence[ReplicaController] = ()
    budgets: Sequence[PodBudget] = ()
    policy: DisruptionPolicy | None = None
    """The quotas and usage of components; the default quotas apply where it sets none."""
    namespaces: Mapping[str, Labels] = {}
    services: Mapping[str, Mapping[str, Labels]] = {}
    """The selectors of services, by namespace and name."""
    storage_classes: Mapping[tuple[str, str], str] = {}
    """The class of each claim, by namespace and name."""
    priorities: Mapping[str, int] = {}
    """The value of each PriorityClass, by name."""
    other_owners: Sequence[PodOwner] = ()
    """Other owners of pods: ReplicationControllers, and custom resources with a scale subresource."""
    spreads_by_default: bool = False
    """The scheduler of this cluster applies default spread constraints, as kube-scheduler does."""
    honours_avoid_lists: bool = True
    """The scheduler of this cluster honours avoid lists."""
    rejects_overlap: bool = False
    """The API server refuses to evict pods with several budgets."""
    recent_evictions: Mapping[str, Mapping[str, datetime]] = {}
    """Recently evicted pods by owner, with the time, as far as events report it."""
    measures: UsageMetrics | None = None
    """None when there is no metrics source; objectives that need it are off."""
