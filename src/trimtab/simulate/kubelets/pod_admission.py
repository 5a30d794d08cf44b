"""Which pods a simulated machine admits: those that fit its actual capacity, which may be less than it reports, and its ports."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.value import Key, Raw
from trimtab.decide.pods.fit.requests import Amounts, HostPort, PodResources

PORTS_MESSAGE = (
    "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)
OS_MESSAGE = "Failed to admit pod as the OS field doesn't match node OS"


class Rejection(NamedTuple):
    """Why a kubelet does not run a pod that is bound to its node."""

    reason: str
    message: str


class PodAdmission:
    """The requests and host ports of the pods admitted on each node."""

    def __init__(self) -> None:
        self._admitted: dict[str, dict[Key, Amounts]] = {}
        self._ports: dict[str, dict[Key, tuple[HostPort, ...]]] = {}
        """Only of pods that have some."""

    def check(self, pod: Raw, resources: PodResources, capacity: Amounts) -> Rejection | None:
        """Why the node of this pod does not admit it; None if it does."""
        if ((pod["spec"].get("os") or {}).get("name") or "linux") != "linux":  # the system of every simulated machine
            return Rejection("PodOSNotSupported", OS_MESSAGE)
        node, requests = pod["spec"]["nodeName"], resources.requests
        if insufficient := self.insufficient_resource(node, capacity, requests):
            message = self.rejection_message(node, capacity, requests, insufficient)
            return Rejection(f"OutOf{insufficient}", message)
        if self.has_port_conflict(node, resources.ports):
            return Rejection("NodePorts", PORTS_MESSAGE)
        return None

    def insufficient_resource(self, node: str, capacity: Amounts, requests: Amounts) -> str | None:
        """The first resource of which the node has too little for one more pod; None if the pod fits."""
        return insufficient_resource(capacity, self._admitted.get(node, {}).values(), requests)

    def has_port_conflict(self, node: str, ports: Iterable[HostPort]) -> bool:
        taken = [port for others in self._ports.get(node, {}).values() for port in others]
        return bool(taken) and any(port.conflicts(other) for port in ports for other in taken)

    def add(self, key: Key, node: str, resources: PodResources) -> None:
        self._admitted.setdefault(node, {})[key] = resources.requests
        if resources.ports:
            self._ports.setdefault(node, {})[key] = resources.ports

    def remove(self, key: Key, node: str) -> None:
        self._admitted.get(node, {}).pop(key, None)
        self._ports.get(node, {}).pop(key, None)

    def rejection_message(self, node: str, capacity: Amounts, requests: Amounts, insufficient: str) -> str:
        """The message of a kubelet that rejects a pod for lack of this resource."""
        here = self._admitted.get(node, {})
        used = len(here) if insufficient == "pods" else sum(other.get(insufficient, 0) for other in here.values())
        return (
            f"Pod was rejected: Node didn't have enough resource: {insufficient}, "
            f"requested: {requests.get(insufficient, 1)}, used: {used}, capacity: {capacity.get(insufficient, 0)}"
        )


def insufficient_resource(
    capacity: Mapping[str, int], others: Iterable[Mapping[str, int]], requests: Mapping[str, int]
) -> str | None:
    """The first resource of which the machine has too little for one more pod; None if the pod fits."""
    others = list(others)
    if len(others) + 1 > capacity.get("pods", 0):
        return "pods"
    for resource, amount in requests.items():
        if resource not in capacity:
            continue  # somebody else reports it for the node, as device plugins do
        if amount + sum(other.get(resource, 0) for other in others) > capacity.get(resource, 0):
            return resource
    return None
