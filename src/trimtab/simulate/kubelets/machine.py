"""The machines behind the nodes of a simulated cluster, and the Node objects and conditions that describe them."""

from collections.abc import Collection
from datetime import datetime

from trimtab.api.kinds.native.node import NodeCondition
from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts
from trimtab.simulate.containers.files import Directory
from trimtab.simulate.fleet import NodePlan

KUBELET_VERSION = "v1.32.0"
KUBELET_PORT = 10250
PRESSURES = {
    "memory": ("MemoryPressure", "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "memory"),
    "disk": ("DiskPressure", "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", "disk space"),
    "pid": ("PIDPressure", "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "PID"),
}
CPU_PRESSURE = ("CPUPressure", "ContainersWaitForCPU", "ContainersGetTheirCPU", "CPU")
"""A condition that no stock kubelet sets; in real clusters an agent derives it from pressure stall information."""


class SimulatedMachine:
    """The actual state of one node, which may differ from its reported status."""

    def __init__(self, plan: NodePlan, number: int) -> None:
        self.plan = plan
        self.address = f"172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        self.capacity: Amounts = parse_amounts(plan.pool.capacity)
        self.uid = ""
        """Uid of its Node object."""
        self.up = True
        self.pressures: set[str] = set()
        """Resources under pressure: `memory`, `disk`, `pid`, `cpu`."""
        handlers = plan.pool.runtime_handlers
        self.host_files: dict[str, Directory] = {} if handlers is None else {"/": runtime_files(handlers)}
        """The files of hostPath volumes, by path."""


def runtime_files(handlers: Collection[str]) -> Directory:
    """The configuration of containerd on a machine that runs RuntimeClasses with these handlers."""
    plugin = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
    runtimes = (f'[{plugin}.{name}]\n  runtime_type = "io.containerd.runc.v2"\n' for name in handlers)
    return {"etc/containerd/config.toml": "version = 2\n" + "".join(runtimes)}


def node_conditions(
    now: datetime, pressures: Collection[str] = (), before: Collection[NodeCondition] = ()
) -> list[Raw]:
    since = {(one.type, one.status): one.last_transition_time for one in before}

    def condition(type_: str, status: str, reason: str, message: str) -> Raw:
        times = {
            "lastHeartbeatTime": timestamp(now),
            "lastTransitionTime": timestamp(since.get((type_, status)) or now),
        }
        return {"type": type_, "status": status, **times, "reason": reason, "message": message}

    conditions = []
    with_cpu = {"cpu": CPU_PRESSURE} if "cpu" in pressures or any(one.type == CPU_PRESSURE[0] for one in before) else {}
    for name, (type_, short, enough, what) in {**PRESSURES, **with_cpu}.items():
        if name in pressures:
            conditions.append(condition(type_, "True", short, f"kubelet has insufficient {what} available"))
        else:
            conditions.append(condition(type_, "False", enough, f"kubelet has sufficient {what} available"))
    return [*conditions, condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")]


def node_object(machine: SimulatedMachine, now: datetime) -> Raw:
    plan, pool = machine.plan, machine.plan.pool
    labels = {
        "kubernetes.io/hostname": plan.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": plan.region,
        "topology.kubernetes.io/zone": plan.zone,
        **pool.labels,
    }
    handlers = pool.runtime_handlers
    runtimes = {} if handlers is None else {"runtimeHandlers": [{"name": name} for name in ("", *handlers)]}
    taints = [{"key": t.key, "effect": t.effect} | ({"value": t.value} if t.value else {}) for t in pool.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name, "labels": {key: value for key, value in labels.items() if value}},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": pool.capacity,
            "allocatable": pool.capacity,
            "conditions": node_conditions(now, machine.pressures),
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": plan.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
            "nodeInfo": {
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "simulated",
                "kernelVersion": "",
                "containerRuntimeVersion": "simulated://1.0",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
            **runtimes,
        },
    }
