"""Which pods a simulated machine admits: those that fit its actual capacity, which may be less than it reports, and its ports."""

from collections.abc import Iterable, Mapping

from trimtab.api.value import Key
from trimtab.decide.pods.fit.requests import Amounts, HostPort, PodResources


class PodAdmission:
    """The requests and host ports of the pods admitted on each node."""

    def __init__(self) -> None:
        self._admitted: dict[str, dict[Key, Amounts]] = {}
        self._ports: dict[str, dict[Key, tuple[HostPort, ...]]] = {}
        """Only of pods that have some."""

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
