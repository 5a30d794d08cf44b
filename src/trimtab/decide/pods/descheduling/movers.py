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
from trimtab.decide.pods.descheduling.evictor import Answer, Cycle, Round
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.registry import Registry

FEWEST_NODES = 2
"""With fewer nodes there is no destination."""

Run = Callable[[Any, Round], None]


class Namespaces(Value):
    """Which namespaces a mover considers."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def complaint(self) -> str:
        return "namespaces: give either include or exclude" if self.include and self.exclude else ""

    def admit(self, namespace: str) -> bool:
        return namespace not in self.exclude and (not self.include or namespace in self.include)


class MoverArgs(Value):
    """The interface of every mover's arguments."""

    def complaint(self) -> str:
        """Return what is wrong with these arguments; empty when they are valid."""
        return ""

    @property
    def measured(self) -> bool:
        """Whether it uses metrics."""
        return False


class PodArgs(MoverArgs):
    """The arguments of most movers: which pods they consider."""

    namespaces: Namespaces = Namespaces()
    label_selector: LabelSelector | None = None

    def complaint(self) -> str:
        return self.namespaces.complaint()

    def admit(self, pod: Resident) -> bool:
        if not self.namespaces.admit(pod.namespace):
            return False
        return self.label_selector is None or self.label_selector.matches(pod.labels)


class Mover(NamedTuple):
    name: str
    args: type[MoverArgs]
    balances: bool
    """Evaluates pods as groups, after all movers that evaluate single pods."""
    run: Run


movers: Registry[Mover] = Registry("mover")


def mover(name: str, *, args: type[MoverArgs], balances: bool = False) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        movers.add(name, Mover(name, args, balances, run))
        return run

    return register


def run_mover(name: str, raw: Raw, cycle: Cycle, evictor: EvictorArgs | None = None) -> None:
    """Run one mover with these arguments."""
    if len(cycle.scene.hosts) < FEWEST_NODES:
        return
    one = movers[name]
    one.run(msgspec.convert(raw, one.args, strict=False), Round(cycle, evictor, name))


def take(pods: Iterable[tuple[Resident, str]], round_: Round) -> Answer:
    """Evict these pods (with their reasons) one by one; skip nodes whose limit is reached."""
    full_nodes: set[str] = set()
    for pod, reason in pods:
        node = pod.pod.spec.node_name
        if node in full_nodes or pod.key in round_.cycle.taken:
            continue
        if not round_.evictable(pod):
            round_.spare(pod, "the policy protects it")
            continue
        if not round_.ready_to_go(pod):
            continue
        outcome = round_.evict(pod, reason)
        if outcome is Answer.TOTAL_LIMIT:
            return outcome
        if outcome is Answer.NODE_LIMIT:
            full_nodes.add(node)
    return Answer.EVICTED


def each_pod(round_: Round, args: PodArgs, *, finished: bool = False) -> Iterator[tuple[Host, Resident]]:
    """Yield every pod that the arguments select, node by node."""
    pods_on = round_.scene.all_pods_on if finished else round_.scene.pods_on
    for node_info in round_.scene.hosts:
        for pod in pods_on(node_info.name):
            if args.admit(pod):
                yield node_info, pod
