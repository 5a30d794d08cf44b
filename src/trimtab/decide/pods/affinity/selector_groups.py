"""Which pods belong together: selectors of services and of the workloads that own pods."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.affinity_terms import Choice, Labels, choice


class Groups(NamedTuple):
    services: Mapping[str, Sequence[Labels]] = {}
    """The selectors of services, by namespace."""
    workloads: Mapping[str, LabelSelector] = {}
    """The selectors of ReplicaSets, StatefulSets and ReplicationControllers, by uid."""

    def selector_for(self, pod: Pod) -> Choice | None:
        """All services that select the pod, and its owner, together; None when nothing groups it."""
        if not self.services and not self.workloads:
            return None
        labels: dict[str, str] = {}
        for selector in self.services.get(pod.metadata.namespace, ()):
            if selector and all(pod.metadata.labels.get(key) == value for key, value in selector.items()):
                labels |= selector
        owner = pod.controller
        owned = self.workloads.get(owner.uid) if owner is not None else None
        found = choice(owned or LabelSelector(), {})
        if found is None:
            return None
        together = found._replace(labels=tuple(sorted({**dict(found.labels), **labels}.items())))
        return None if together.empty else together


NO_GROUPS = Groups()
