"""A node with the pods that run on it, as the immutable value that plugins evaluate."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.affinity.affinity_terms import Carried, Labels, carried
from trimtab.decide.pods.fit.requests import Amounts, Demand, amounts, demand
from trimtab.decide.pods.pod_traits import Traits, traits


class Resident(NamedTuple):
    """A pod with the values computed from it that filters and scores read."""

    pod: Pod
    key: tuple[str, str]
    """Namespace and name."""
    namespace: str
    name: str
    labels: Labels
    terminating: bool
    priority: int
    demand: Demand
    carried: tuple[Carried, ...]
    traits: Traits


def resident(pod: Pod) -> Resident:
    meta, spec = pod.metadata, pod.spec
    return Resident(
        pod=pod,
        key=(meta.namespace, meta.name),
        namespace=meta.namespace,
        name=meta.name,
        labels=meta.labels,
        terminating=meta.deletion_timestamp is not None,
        priority=spec.priority or 0,
        demand=demand(pod),
        carried=carried(spec, meta.namespace, meta.labels),
        traits=traits(pod),
    )


class Host(NamedTuple):
    """Immutable; `with_pod` and `without_pods` return the changed value."""

    name: str
    node: Node
    labels: Labels
    allocatable: Amounts
    residents: tuple[Resident, ...]
    used: Amounts
    assumed_cpu: int
    assumed_memory: int

    @property
    def free_pods(self) -> int:
        return self.allocatable.get("pods", 0) - len(self.residents)

    def free(self, resource: str) -> int:
        if resource == "pods":
            return self.free_pods
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)

    def joined(self, pod: Resident) -> "Host":
        return self._counting((*self.residents, pod), (pod,), 1)

    def left(self, pods: Sequence[Resident]) -> "Host":
        """Return the node without these pods, which must be the same objects as in `pods`."""
        leaving = {id(pod) for pod in pods}
        return self._counting(tuple([one for one in self.residents if id(one) not in leaving]), pods, -1)

    def _counting(self, residents: tuple[Resident, ...], changed: Iterable[Resident], sign: int) -> "Host":
        used, cpu, memory = dict(self.used), self.assumed_cpu, self.assumed_memory
        for one in changed:
            resources = one.demand
            for resource, amount in resources.requests.items():
                used[resource] = used.get(resource, 0) + sign * amount
            cpu += sign * resources.assumed_cpu
            memory += sign * resources.assumed_memory
        return Host(self.name, self.node, self.labels, self.allocatable, residents, used, cpu, memory)


def host(node: Node, residents: Iterable[Resident] = ()) -> Host:
    listed = tuple(residents)
    used: Amounts = {}
    for one in listed:
        for resource, amount in one.demand.requests.items():
            used[resource] = used.get(resource, 0) + amount
    return Host(
        name=node.name,
        node=node,
        labels=node.metadata.labels,
        allocatable=amounts(node.status.allocatable),
        residents=listed,
        used=used,
        assumed_cpu=sum(one.demand.assumed_cpu for one in listed),
        assumed_memory=sum(one.demand.assumed_memory for one in listed),
    )
