"""Groups of pods by the selectors of services and of the workloads that own pods."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.affinity_terms import HashableSelector, Labels, hashable_selector


class SelectorGroups(NamedTuple):
    services: Mapping[str, Sequence[Labels]] = {}
    """The selectors of services, by namespace."""
    workloads: Mapping[str, LabelSelector] = {}
    """The selectors of ReplicaSets, StatefulSets and ReplicationControllers, by uid."""

    def selector_for(self, pod: Pod) -> HashableSelector | None:
        """Combine the selectors of all services that select the pod and of its owner; None when there are none."""
        if not self.services and not self.workloads:
            return None
        labels: dict[str, str] = {}
        for selector in self.services.get(pod.metadata.namespace, ()):
            if selector and all(pod.metadata.labels.get(key) == value for key, value in selector.items()):
                labels |= selector
        owner = pod.controller
        owner_selector = self.workloads.get(owner.uid) if owner is not None else None
        found = hashable_selector(owner_selector or LabelSelector(), {})
        if found is None:
            return None
        combined = found._replace(labels=tuple(sorted({**dict(found.labels), **labels}.items())))
        return None if combined.is_empty else combined


NO_SELECTOR_GROUPS = SelectorGroups()
