"""Resource requests of a pod, added up as kube-scheduler does."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod, PodSpec
from trimtab.api.quantity import int_value, milli_value
from trimtab.api.value import QuantityText

Amounts = dict[str, int]
"""Resource to amount: CPU in millicores, everything else in whole units."""

ASSUMED_REQUESTS: Amounts = {"cpu": 100, "memory": 200 << 20}
"""Requests that scoring assumes for a container without requests."""


class HostPort(NamedTuple):
    address: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether the ports conflict: the same port, unless both have addresses and these differ."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.address == other.address or ANY_ADDRESS in {self.address, other.address}


ANY_ADDRESS = "0.0.0.0"  # noqa: S104  it is compared, never bound


class PodResources(NamedTuple):
    requests: Amounts
    """Actual requests; a resource that is not requested is absent."""
    assumed_cpu: int
    assumed_memory: int
    ports: tuple[HostPort, ...]


def parse_amounts(quantities: Mapping[str, QuantityText]) -> Amounts:
    return {name: milli_value(value) if name == "cpu" else int_value(value) for name, value in quantities.items()}


def pod_resources_of(pod: Pod) -> PodResources:
    """Parse requests once; the assumed amounts differ only for containers without requests."""
    spec = pod.spec
    requested = [parse_amounts(container.resources.requests) for container in spec.containers]
    if spec.init_containers or spec.overhead or spec.resources is not None:
        init = [(parse_amounts(one.resources.requests), one.restart_policy == "Always") for one in spec.init_containers]
        requests = _total_requests(spec, requested, init)
        assumed = _total_requests(
            spec, [ASSUMED_REQUESTS | one for one in requested], [(ASSUMED_REQUESTS | one, side) for one, side in init]
        )
        cpu, memory = assumed.get("cpu", 0), assumed.get("memory", 0)
    else:
        requests = requested[0] if len(requested) == 1 else _sum(requested)
        cpu = memory = 0
        for one in requested:
            cpu += one.get("cpu", ASSUMED_REQUESTS["cpu"])
            memory += one.get("memory", ASSUMED_REQUESTS["memory"])
    if not all(requests.values()):
        requests = {name: amount for name, amount in requests.items() if amount}
    return PodResources(requests, cpu, memory, host_ports(spec))


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    listening = [port for container in (*spec.containers, *sidecars) for port in container.ports if port.host_port > 0]
    return tuple(HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port) for port in listening)


def image_names(spec: PodSpec) -> tuple[str, ...]:
    """Return every image of the pod, with a tag as nodes report it."""
    return tuple(_with_tag(container.image) for container in (*spec.init_containers, *spec.containers))


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        _add(total, part)
    return total


def _total_requests(spec: PodSpec, containers: Iterable[Amounts], init: Iterable[tuple[Amounts, bool]]) -> Amounts:
    """Return the larger of the sum of containers and the peak during initialisation, plus the pod overhead."""
    running = _sum(containers)
    _raise_to_peak(running, init)
    if spec.resources is not None:
        running.update(parse_amounts(spec.resources.requests))
    _add(running, parse_amounts(spec.overhead))
    return running


def _raise_to_peak(running: Amounts, init: Iterable[tuple[Amounts, bool]]) -> None:
    """An init container runs beside the sidecars started before it; sidecars keep running with the containers."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for requests, is_sidecar in init:
        if is_sidecar:
            _add(running, requests)
            _add(sidecars, requests)
            together = sidecars
        else:
            together = _sum((sidecars, requests))
        for name, amount in together.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        running[name] = max(running.get(name, 0), amount)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
