"""The pages of simulated kubelets: health, pods, logs, configuration, statistics and metrics of one node.

Counters of CPU time grow by what a pod uses since they were read last, so that they never decrease when its load does.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import orjson

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Raw
from trimtab.clock import Clock, timestamp
from trimtab.errors import BadRequest
from trimtab.runtime.cache import Cache
from trimtab.server.subresources.pod_runtime import KubeletAnswer, LogLine, select_lines
from trimtab.simulate.kubelet_metrics import METRICS_PAGES, MILLI, NodeUsage, PodUsage, format_metrics
from trimtab.simulate.kubelets.kubelets import Kubelets
from trimtab.simulate.kubelets.machine import KUBELET_PORT, SimulatedMachine
from trimtab.simulate.kubelets.pod_reports import PODS
from trimtab.simulate.usage import SimulatedUsage

PLAIN_TEXT = "text/plain; charset=utf-8"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
NOT_FOUND = KubeletAnswer(404, b"404 page not found\n", PLAIN_TEXT)
HEALTH_PAGES = frozenset(("healthz", "healthz/log", "healthz/ping", "healthz/syncloop"))
LOG_DIRECTORIES = ("containers", "pods")
NANOS = 1_000_000_000


class KubeletPages:
    """Answers requests to the kubelets of one cluster."""

    def __init__(self, cache: Cache, kubelets: Kubelets, usage: SimulatedUsage, clock: Clock) -> None:
        self._cache, self._kubelets, self._usage, self._clock = cache, kubelets, usage, clock
        self._cpu_time: dict[str, tuple[datetime, float]] = {}
        """CPU seconds of each pod by uid, and when they were counted."""

    def respond(self, node: str, path: str, query: dict[str, str]) -> KubeletAnswer | None:
        """The answer to a GET request; None while the machine is down."""
        machine = self._kubelets.machines.get(node)
        if machine is None or not machine.up:
            return None
        page = path.strip("/")
        if page in HEALTH_PAGES:
            return KubeletAnswer(200, b"ok", PLAIN_TEXT)
        if page in ("pods", "runningpods"):
            return _json(self._pod_list(node, only_running=page == "runningpods"))
        if page == "configz":
            return _json(configuration(machine))
        if page == "stats/summary":
            return _json(summary(self._node_usage(node, machine)))
        if page in METRICS_PAGES:
            text = format_metrics(METRICS_PAGES[page](self._node_usage(node, machine)))
            return KubeletAnswer(200, text.encode(), PROMETHEUS_TEXT)
        if page == "logs":
            links = "".join(f'<a href="{name}/">{name}/</a>\n' for name in LOG_DIRECTORIES)
            return KubeletAnswer(200, f"<pre>\n{links}</pre>\n".encode(), "text/html; charset=utf-8")
        if page.startswith("containerLogs/"):
            return self._container_log(node, page.split("/")[1:], query)
        return NOT_FOUND

    def _entries(self, node: str) -> Iterator[tuple[Pod, Raw]]:
        table = self._cache.table(PODS)
        for name in table.names():
            entry = table.entries[name]
            if isinstance(entry.typed, Pod) and entry.typed.spec.node_name == node:
                yield entry.typed, entry.raw

    def _pod_list(self, node: str, *, only_running: bool) -> Raw:
        items = [raw for pod, raw in self._entries(node) if not only_running or pod.status.phase == "Running"]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _container_log(self, node: str, names: Sequence[str], query: dict[str, str]) -> KubeletAnswer:
        if len(names) != 3:
            return NOT_FOUND
        namespace, name, container = names
        found = next((raw for pod, raw in self._entries(node) if (pod.namespace, pod.name) == (namespace, name)), None)
        if found is None:
            return KubeletAnswer(404, f'pod "{name}" does not exist\n'.encode(), PLAIN_TEXT)
        parts = ("containers", "initContainers", "ephemeralContainers")
        if not any(one["name"] == container for part in parts for one in found["spec"].get(part) or ()):
            message = f'container "{container}" not found in pod "{name}"\n'
            return KubeletAnswer(404, message.encode(), PLAIN_TEXT)
        previous = query.get("previous") in ("true", "1")
        lines: Sequence[LogLine] = self._kubelets.containers.read_log(found, container, previous=previous)
        try:
            return KubeletAnswer(200, select_lines(lines, query, self._clock.now()).encode(), PLAIN_TEXT)
        except BadRequest as fault:
            return KubeletAnswer(400, f"{fault}\n".encode(), PLAIN_TEXT)

    def _node_usage(self, node: str, machine: SimulatedMachine) -> NodeUsage:
        now = self._clock.now()
        running = [pod for pod, _ in self._entries(node) if pod.status.phase == "Running"]
        used = self._usage.actual_usage(running, machine.capacity)
        self._forget_ended()
        pods = []
        for pod, amounts in zip(running, used, strict=True):
            started = pod.status.start_time or now
            milli_cpu = amounts.get("cpu", 0)
            counted, seconds = self._cpu_time.get(pod.metadata.uid, (started, 0.0))
            seconds += max(0.0, (now - counted).total_seconds()) * milli_cpu / MILLI
            self._cpu_time[pod.metadata.uid] = (now, seconds)
            pods.append(PodUsage(pod, milli_cpu, amounts.get("memory", 0), seconds, started))
        return NodeUsage(node, machine, pods, now)

    def _forget_ended(self) -> None:
        """Forget the CPU time of pods that do not exist any more."""
        exist = {entry.typed.metadata.uid for entry in self._cache.table(PODS).entries.values()}
        self._cpu_time = {uid: counted for uid, counted in self._cpu_time.items() if uid in exist}


def _json(body: Raw) -> KubeletAnswer:
    return KubeletAnswer(200, orjson.dumps(body), "application/json")


def configuration(machine: SimulatedMachine) -> Raw:
    """What `configz` tells: settings of a kubelet that simulated ones share with real ones."""
    return {
        "kubeletconfig": {
            "address": "0.0.0.0",  # noqa: S104 - what a kubelet reports; nothing listens there
            "port": KUBELET_PORT,
            "healthzPort": 10248,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
            "authorization": {"mode": "Webhook"},
            "clusterDomain": "cluster.local",
            "nodeStatusUpdateFrequency": "10s",
            "nodeStatusReportFrequency": "5m0s",
            "nodeLeaseDurationSeconds": 40,
            "maxPods": machine.capacity.get("pods", 0),
            "logging": {"format": "text"},
        }
    }


def summary(usage: NodeUsage) -> Raw:
    """What `stats/summary` tells."""
    node = {
        "nodeName": usage.node,
        "startTime": timestamp(min((one.started for one in usage.pods), default=usage.now)),
        "cpu": _cpu(usage.now, usage.milli_cpu, usage.cpu_seconds),
        "memory": _memory(usage.now, usage.memory, usage.machine.capacity.get("memory", 0)),
    }
    return {"node": node, "pods": [_pod_summary(one, usage.now) for one in usage.pods]}


def _pod_summary(used: PodUsage, now: datetime) -> Raw:
    metadata = used.pod.metadata
    return {
        "podRef": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
        "startTime": timestamp(used.started),
        "containers": [
            {
                "name": name,
                "startTime": timestamp(used.started),
                "cpu": _cpu(now, part.milli_cpu, part.cpu_seconds),
                "memory": _memory(now, part.memory),
            }
            for name, part in used.containers()
        ],
        "cpu": _cpu(now, used.milli_cpu, used.cpu_seconds),
        "memory": _memory(now, used.memory),
    }


def _cpu(now: datetime, milli: int, seconds: float) -> Raw:
    return {
        "time": timestamp(now),
        "usageNanoCores": milli * (NANOS // MILLI),
        "usageCoreNanoSeconds": int(seconds * NANOS),
    }


def _memory(now: datetime, used: int, capacity: int | None = None) -> Raw:
    free = {} if capacity is None else {"availableBytes": max(0, capacity - used)}
    return {
        "time": timestamp(now),
        **free,
        "usageBytes": used,
        "workingSetBytes": used,
        "rssBytes": used,
        "pageFaults": 0,
        "majorPageFaults": 0,
    }
