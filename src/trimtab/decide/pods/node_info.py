"""A node with the pods that run on it, as the immutable value that plugins evaluate."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.affinity_terms import Labels, WeightedTerm, affinity_terms_of
from trimtab.decide.pods.fit.requests import Amounts, PodResources, parse_amounts, pod_resources_of
from trimtab.decide.pods.pod_traits import PodTraits, pod_traits_of


class PodInfo(NamedTuple):
    """A pod with the values computed from it that filters and scores read."""

    pod: Pod
    key: tuple[str, str]
    """Namespace and name."""
    namespace: str
    name: str
    labels: Labels
    is_terminating: bool
    priority: int
    resources: PodResources
    affinity_terms: tuple[WeightedTerm, ...]
    traits: PodTraits


def build_pod_info(pod: Pod) -> PodInfo:
    meta, spec = pod.metadata, pod.spec
    return PodInfo(
        pod=pod,
        key=(meta.namespace, meta.name),
        namespace=meta.namespace,
        name=meta.name,
        labels=meta.labels,
        is_terminating=meta.deletion_timestamp is not None,
        priority=spec.priority or 0,
        resources=pod_resources_of(pod),
        affinity_terms=affinity_terms_of(spec, meta.namespace, meta.labels),
        traits=pod_traits_of(pod),
    )


class NodeInfo(NamedTuple):
    """Immutable; `with_pod` and `without_pods` return the changed value."""

    name: str
    node: Node
    labels: Labels
    allocatable: Amounts
    pods: tuple[PodInfo, ...]
    used: Amounts
    assumed_cpu: int
    assumed_memory: int

    @property
    def free_pods(self) -> int:
        return self.allocatable.get("pods", 0) - len(self.pods)

    def free_amount(self, resource: str) -> int:
        if resource == "pods":
            return self.free_pods
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)

    def with_pod(self, pod: PodInfo) -> "NodeInfo":
        return self._with_pods((*self.pods, pod), (pod,), 1)

    def without_pods(self, pods: Sequence[PodInfo]) -> "NodeInfo":
        """Return the node without these pods, which must be the same objects as in `pods`."""
        leaving = {id(pod) for pod in pods}
        return self._with_pods(tuple([one for one in self.pods if id(one) not in leaving]), pods, -1)

    def _with_pods(self, pods: tuple[PodInfo, ...], changed: Iterable[PodInfo], sign: int) -> "NodeInfo":
        used, cpu, memory = dict(self.used), self.assumed_cpu, self.assumed_memory
        for one in changed:
            resources = one.resources
            for resource, amount in resources.requests.items():
                used[resource] = used.get(resource, 0) + sign * amount
            cpu += sign * resources.assumed_cpu
            memory += sign * resources.assumed_memory
        return NodeInfo(self.name, self.node, self.labels, self.allocatable, pods, used, cpu, memory)


def build_node_info(node: Node, pods: Iterable[PodInfo] = ()) -> NodeInfo:
    listed = tuple(pods)
    used: Amounts = {}
    for one in listed:
        for resource, amount in one.resources.requests.items():
            used[resource] = used.get(resource, 0) + amount
    return NodeInfo(
        name=node.name,
        node=node,
        labels=node.metadata.labels,
        allocatable=parse_amounts(node.status.allocatable),
        pods=listed,
        used=used,
        assumed_cpu=sum(one.resources.assumed_cpu for one in listed),
        assumed_memory=sum(one.resources.assumed_memory for one in listed),
    )
