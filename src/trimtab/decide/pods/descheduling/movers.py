"""The mover plugins: each finds pods that should run on another node, one file each in `plugins.movers`.

@mover("RemoveFailedPods", args=RemoveFailedPodsArgs)
def remove_failed_pods(args: RemoveFailedPodsArgs, mover_run: MoverRun) -> None:
    for pod in ...:
        if mover_run.is_evictable(pod) and mover_run.passes_pre_eviction_filter(pod):
            mover_run.evict(pod, "reason")
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Raw, Value
from trimtab.decide.pods.descheduling.evictor import DeschedulingCycle, EvictionOutcome, MoverRun
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.registry import Registry

MIN_NODES = 2
"""With fewer nodes there is no destination."""

MoverFunction = Callable[[Any, MoverRun], None]


class NamespaceFilter(Value):
    """Which namespaces a mover considers."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def validation_error(self) -> str:
        return "namespaces: give either include or exclude" if self.include and self.exclude else ""

    def selects(self, namespace: str) -> bool:
        return namespace not in self.exclude and (not self.include or namespace in self.include)


class MoverArgs(Value):
    """The interface of every mover's arguments."""

    def validation_error(self) -> str:
        """Return what is wrong with these arguments; empty when they are valid."""
        return ""

    @property
    def uses_metrics(self) -> bool:
        """Whether it uses metrics."""
        return False


class PodFilterArgs(MoverArgs):
    """The arguments of most movers: which pods they consider."""

    namespaces: NamespaceFilter = NamespaceFilter()
    label_selector: LabelSelector | None = None

    def validation_error(self) -> str:
        return self.namespaces.validation_error()

    def selects(self, pod: PodInfo) -> bool:
        if not self.namespaces.selects(pod.namespace):
            return False
        return self.label_selector is None or self.label_selector.matches(pod.labels)


class Mover(NamedTuple):
    name: str
    args: type[MoverArgs]
    balances: bool
    """Evaluates pods as groups, after all movers that evaluate single pods."""
    run: MoverFunction


movers: Registry[Mover] = Registry("mover")


def mover(name: str, *, args: type[MoverArgs], balances: bool = False) -> Callable[[MoverFunction], MoverFunction]:
    def register(run: MoverFunction) -> MoverFunction:
        movers.add(name, Mover(name, args, balances, run))
        return run

    return register


def run_mover(name: str, raw: Raw, cycle: DeschedulingCycle, evictor: EvictorArgs | None = None) -> None:
    """Run one mover with these arguments."""
    if len(cycle.cluster_view.nodes) < MIN_NODES:
        return
    one = movers[name]
    one.run(msgspec.convert(raw, one.args, strict=False), MoverRun(cycle, evictor, name))


def evict_pods(pods: Iterable[tuple[PodInfo, str]], mover_run: MoverRun) -> EvictionOutcome:
    """Evict these pods (with their reasons) one by one; skip nodes whose limit is reached."""
    full_nodes: set[str] = set()
    for pod, reason in pods:
        node = pod.pod.spec.node_name
        if node in full_nodes or pod.key in mover_run.cycle.evicted_keys:
            continue
        if not mover_run.is_evictable(pod):
            mover_run.reject(pod, "the policy protects it")
            continue
        if not mover_run.passes_pre_eviction_filter(pod):
            continue
        outcome = mover_run.evict(pod, reason)
        if outcome is EvictionOutcome.TOTAL_LIMIT:
            return outcome
        if outcome is EvictionOutcome.NODE_LIMIT:
            full_nodes.add(node)
    return EvictionOutcome.EVICTED


def each_pod(mover_run: MoverRun, args: PodFilterArgs, *, finished: bool = False) -> Iterator[tuple[NodeInfo, PodInfo]]:
    """Yield every pod that the arguments select, node by node."""
    pods_on = mover_run.cluster_view.all_pods_on if finished else mover_run.cluster_view.pods_on
    for node_info in mover_run.cluster_view.nodes:
        for pod in pods_on(node_info.name):
            if args.selects(pod):
                yield node_info, pod
