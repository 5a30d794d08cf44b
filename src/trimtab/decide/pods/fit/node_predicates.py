"""What several rules ask of a node alone: does it attract the pod, and does the pod put up with its taints."""

from collections.abc import Callable, Collection, Hashable, Iterable

from trimtab.api.kinds.native.node import Taint
from trimtab.api.kinds.native.pod import NodeSelector, NodeSelectorTerm, PodSpec, Toleration
from trimtab.decide.pods.node_info import Host

REPELLING = frozenset(("NoSchedule", "NoExecute"))


def required_selector(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity and spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def node_requirements(spec: PodSpec) -> Hashable:
    """All that says which nodes a pod must have, as a key."""
    return tuple(sorted(spec.node_selector.items())), required_selector(spec)


def wants(spec: PodSpec) -> Callable[[Host], bool]:
    """Whether a node has what the pod requires of nodes."""
    labels, required = tuple(spec.node_selector.items()), required_selector(spec)

    def check(here: Host) -> bool:
        for key, value in labels:
            if here.labels.get(key) != value:
                return False
        return required is None or required.matches(here.labels, {"metadata.name": here.name})

    return check


def prefers(term: NodeSelectorTerm) -> Callable[[Host], bool]:
    return lambda here: term.matches(here.labels, {"metadata.name": here.name})


def untolerated(taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str]) -> Taint | None:
    """The first taint with one of these effects that nothing tolerates."""
    for taint in taints:
        if taint.effect in effects and not any(toleration.covers(taint) for toleration in tolerations):
            return taint
    return None
