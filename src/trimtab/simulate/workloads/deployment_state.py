"""A Deployment and its ReplicaSets at one moment."""

from collections.abc import Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.value import Raw
from trimtab.controllers.contract import View
from trimtab.simulate.workloads.owned_pods import (
    raw_of,
    scaled_value,
    sort_oldest_first,
)

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


class DeploymentState(NamedTuple):
    """A Deployment and its ReplicaSets."""

    wanted: Deployment
    raw: Raw
    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]
    """Oldest first."""

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def replicas(self) -> int:
        return 1 if self.wanted.spec.replicas is None else self.wanted.spec.replicas

    @property
    def is_rolling_update(self) -> bool:
        return self.wanted.spec.strategy.type != "Recreate"

    @property
    def max_surge(self) -> int:
        """Number of pods allowed beyond the wanted replicas."""
        return self._fenceposts()[0] if self.is_rolling_update else 0

    @property
    def max_unavailable(self) -> int:
        """Number of the wanted replicas that may be unavailable."""
        return min(self._fenceposts()[1], self.replicas) if self.is_rolling_update and self.replicas else 0

    def _fenceposts(self) -> tuple[int, int]:
        how = self.wanted.spec.strategy.rolling_update
        surge = scaled_value(how.max_surge if how else None, self.replicas, round_up=True, default="25%")
        slack = scaled_value(how.max_unavailable if how else None, self.replicas, round_up=False, default="25%")
        return (0, 1) if surge == 0 and slack == 0 else (surge, slack)


def observe(wanted: Deployment, owned: Sequence[ReplicaSet], view: View) -> DeploymentState:
    raw = raw_of(wanted, view)
    replicasets = sort_oldest_first(owned)
    template = without_hash(raw["spec"]["template"])
    new = next((one for one in replicasets if without_hash(raw_of(one, view)["spec"]["template"]) == template), None)
    return DeploymentState(wanted, raw, new, tuple(one for one in replicasets if one is not new))


def without_hash(template: Raw) -> Raw:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    kept = {key: value for key, value in metadata.items() if key not in ("labels", "creationTimestamp")}
    return {**template, "metadata": {**kept, "labels": labels}}


def size_of(one: ReplicaSet) -> int:
    return 1 if one.spec.replicas is None else one.spec.replicas


def total_size(replicasets: Sequence[ReplicaSet]) -> int:
    return sum(map(size_of, replicasets))


def parse_int(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdigit() else 0


def revision_of(one: ReplicaSet) -> int:
    return parse_int(one.metadata.annotations.get(REVISION))


def is_complete(state: DeploymentState) -> bool:
    new = state.new
    return (
        new is not None
        and new.status.replicas == new.status.available_replicas == state.replicas
        and all(one.status.replicas == 0 for one in state.old)
    )
