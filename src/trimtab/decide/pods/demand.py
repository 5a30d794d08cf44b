"""What a pod asks of a node: its requests as the scheduler adds them up."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Container, Pod, PodSpec
from trimtab.api.quantity import milli, whole
from trimtab.api.value import QuantityText

Amounts = dict[str, int]
"""Resource to amount: CPU in thousandths, everything else in whole units."""

ASSUMED: Mapping[str, int] = {"cpu": 100, "memory": 200 << 20}
"""What a container that says nothing is assumed to use when nodes are scored."""


class HostPort(NamedTuple):
    address: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Two listeners collide on the same port unless their addresses are different and both given."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.address == other.address or ANY_ADDRESS in {self.address, other.address}


ANY_ADDRESS = "0.0.0.0"  # noqa: S104  it is compared, never bound


class Demand(NamedTuple):
    requests: Amounts
    """Real requests; a resource that is not asked for is absent."""
    assumed_cpu: int
    assumed_memory: int
    ports: tuple[HostPort, ...]


def amounts(quantities: Mapping[str, QuantityText]) -> Amounts:
    return {name: milli(value) if name == "cpu" else whole(value) for name, value in quantities.items()}


def demand(pod: Pod) -> Demand:
    requests = _total(pod.spec, _stated)
    assumed = _total(pod.spec, _with_assumed)
    return Demand(
        requests={name: amount for name, amount in requests.items() if amount},
        assumed_cpu=assumed.get("cpu", 0),
        assumed_memory=assumed.get("memory", 0),
        ports=host_ports(pod.spec),
    )


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    return tuple(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


def images(spec: PodSpec) -> tuple[str, ...]:
    """Every image the node must have, with a tag as nodes report it."""
    return tuple(_tagged(container.image) for container in (*spec.init_containers, *spec.containers))


def _tagged(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"


def _stated(container: Container) -> Amounts:
    return amounts(container.resources.requests)


def _with_assumed(container: Container) -> Amounts:
    return {**ASSUMED, **amounts(container.resources.requests)}


def _total(spec: PodSpec, read: Callable[[Container], Amounts]) -> Amounts:
    """The larger of what runs for long and the peak while initialising, plus the overhead of the sandbox."""
    running: Amounts = {}
    for container in spec.containers:
        _add(running, read(container))
    if spec.init_containers:
        _raise_to_peak(running, spec.init_containers, read)
    if spec.resources is not None:
        running.update(amounts(spec.resources.requests))
    _add(running, amounts(spec.overhead))
    return running


def _raise_to_peak(running: Amounts, init: tuple[Container, ...], read: Callable[[Container], Amounts]) -> None:
    """An init container runs beside the sidecars started before it; sidecars keep running with the rest."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init:
        if container.restart_policy == "Always":
            _add(running, read(container))
            _add(sidecars, read(container))
            beside = sidecars
        else:
            beside = dict(sidecars)
            _add(beside, read(container))
        for name, amount in beside.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        running[name] = max(running.get(name, 0), amount)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
