"""What simulated kubelets measure, and their metrics in the text format of Prometheus."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.simulate.kubelets.machine import KUBELET_VERSION, SimulatedMachine

MILLI = 1000


class PodUsage(NamedTuple):
    """What a running pod uses."""

    pod: Pod
    milli_cpu: int
    memory: int
    """Bytes."""
    cpu_seconds: float
    """CPU time since it started."""
    started: datetime

    def containers(self) -> Iterator[tuple[str, "PodUsage"]]:
        """The name of each container with its share; all have the same."""
        names = [container.name for container in self.pod.spec.containers]
        share = self._replace(
            milli_cpu=self.milli_cpu // len(names),
            memory=self.memory // len(names),
            cpu_seconds=self.cpu_seconds / len(names),
        )
        return ((name, share) for name in names)


class NodeUsage(NamedTuple):
    """What the running pods of a node use."""

    node: str
    machine: SimulatedMachine
    pods: Sequence[PodUsage]
    now: datetime

    @property
    def milli_cpu(self) -> int:
        return sum(one.milli_cpu for one in self.pods)

    @property
    def memory(self) -> int:
        return sum(one.memory for one in self.pods)

    @property
    def cpu_seconds(self) -> float:
        return sum(one.cpu_seconds for one in self.pods)


class MetricFamily(NamedTuple):
    """One metric with its samples."""

    name: str
    type: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def format_metrics(families: Iterable[MetricFamily]) -> str:
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: MetricFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.type}"
    for labels, value in family.samples:
        pairs = ",".join(f'{key}="{text}"' for key, text in labels.items())
        yield f"{family.name}{{{pairs}}} {value:.15g}" if pairs else f"{family.name} {value:.15g}"


def kubelet_metrics(usage: NodeUsage) -> Iterator[MetricFamily]:
    containers = sum(len(one.pod.spec.containers) for one in usage.pods)
    yield _gauge("kubelet_node_name", "The node's name. The count is always 1.", 1, node=usage.node)
    yield _gauge("kubelet_running_pods", "Number of pods that have a running pod sandbox", len(usage.pods))
    text = "Number of containers currently running"
    yield _gauge("kubelet_running_containers", text, containers, container_state="running")
    yield _gauge("kubernetes_build_info", "The version of the kubelet; always 1.", 1, git_version=KUBELET_VERSION)


def resource_metrics(usage: NodeUsage) -> Iterator[MetricFamily]:
    parts = _container_samples(usage)
    started = [(labels, part.started.timestamp()) for labels, part in parts]
    text = "Start time of the container since unix epoch in seconds"
    yield from _usage_metrics("container", parts)
    yield MetricFamily("container_start_time_seconds", "gauge", text, started)
    yield from _usage_metrics("node", [({}, usage)])
    yield from _usage_metrics("pod", [(_pod_labels(one.pod), one) for one in usage.pods])
    yield _gauge("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", 0)


def cadvisor_metrics(usage: NodeUsage) -> Iterator[MetricFamily]:
    capacity = usage.machine.capacity
    yield from _usage_metrics("container", _container_samples(usage))
    yield _gauge("machine_cpu_cores", "Number of logical CPU cores.", capacity.get("cpu", 0) / MILLI)
    yield _gauge("machine_memory_bytes", "Amount of memory installed on the machine.", capacity.get("memory", 0))


def probe_metrics(usage: NodeUsage) -> Iterator[MetricFamily]:
    """Simulated kubelets count no probes."""
    return iter(())


METRICS_PAGES: Mapping[str, Callable[[NodeUsage], Iterator[MetricFamily]]] = {
    "metrics": kubelet_metrics,
    "metrics/cadvisor": cadvisor_metrics,
    "metrics/probes": probe_metrics,
    "metrics/resource": resource_metrics,
}
"""The metrics of each page."""


def _usage_metrics(
    what: str, samples: Sequence[tuple[Mapping[str, str], PodUsage | NodeUsage]]
) -> Iterator[MetricFamily]:
    """CPU time and memory of containers, pods or the node."""
    cpu = [(labels, used.cpu_seconds) for labels, used in samples]
    memory = [(labels, float(used.memory)) for labels, used in samples]
    text = f"Cumulative cpu time consumed by the {what} in core-seconds"
    yield MetricFamily(f"{what}_cpu_usage_seconds_total", "counter", text, cpu)
    text = f"Current working set of the {what} in bytes"
    yield MetricFamily(f"{what}_memory_working_set_bytes", "gauge", text, memory)


def _gauge(name: str, text: str, value: float, **labels: str) -> MetricFamily:
    return MetricFamily(name, "gauge", text, [(labels, value)])


def _container_samples(usage: NodeUsage) -> list[tuple[dict[str, str], PodUsage]]:
    return [
        ({"container": name, **_pod_labels(one.pod)}, part) for one in usage.pods for name, part in one.containers()
    ]


def _pod_labels(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name}
