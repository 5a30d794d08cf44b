"""Checks of a node alone that several plugins share: node selectors, node affinity and taints."""

from collections.abc import Callable, Collection, Hashable, Iterable

from trimtab.api.kinds.native.node import Taint
from trimtab.api.kinds.native.pod import NodeSelector, NodeSelectorTerm, PodSpec, Toleration
from trimtab.decide.pods.node_info import NodeInfo

REPELLING = frozenset(("NoSchedule", "NoExecute"))


def required_selector(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity and spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def node_requirements(spec: PodSpec) -> Hashable:
    """Return everything that restricts the nodes of a pod, as a hashable key."""
    return tuple(sorted(spec.node_selector.items())), required_selector(spec)


def required_node_matcher(spec: PodSpec) -> Callable[[NodeInfo], bool]:
    """Return a check whether a node matches the pod's node selector and required node affinity."""
    labels, required = tuple(spec.node_selector.items()), required_selector(spec)

    def check(node_info: NodeInfo) -> bool:
        for key, value in labels:
            if node_info.labels.get(key) != value:
                return False
        return required is None or required.matches(node_info.labels, {"metadata.name": node_info.name})

    return check


def preferred_node_matcher(term: NodeSelectorTerm) -> Callable[[NodeInfo], bool]:
    return lambda node_info: term.matches(node_info.labels, {"metadata.name": node_info.name})


def first_untolerated_taint(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str]
) -> Taint | None:
    """Return the first taint with one of these effects that no toleration matches."""
    for taint in taints:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
