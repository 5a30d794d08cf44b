"""What a mover is: a rule that finds pods which would be better off elsewhere, one file each in `plugins.movers`.

@mover("RemoveFailedPods", args=FailedArgs)
def remove_failed_pods(args: FailedArgs, round: Round) -> None:
    for pod in ...:
        if round.evictable(pod) and round.ready_to_go(pod):
            round.evict(pod, "why")
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
"""With fewer nodes there is nowhere to go."""

Run = Callable[[Any, Round], None]


class Namespaces(Value):
    """Which namespaces are meant."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def complaint(self) -> str:
        return "namespaces: give either include or exclude" if self.include and self.exclude else ""

    def admit(self, namespace: str) -> bool:
        return namespace not in self.exclude and (not self.include or namespace in self.include)


class MoverArgs(Value):
    """What every mover's arguments can say of themselves."""

    def complaint(self) -> str:
        """What is wrong with these arguments; empty when nothing is."""
        return ""

    @property
    def measured(self) -> bool:
        """Whether it counts what is really used."""
        return False


class PodArgs(MoverArgs):
    """Arguments that most movers have: which pods they look at."""

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
    """Judges pods as groups, after all movers that judge them one by one."""
    run: Run


movers: Registry[Mover] = Registry("mover")


def mover(name: str, *, args: type[MoverArgs], balances: bool = False) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        movers.add(name, Mover(name, args, balances, run))
        return run

    return register


def run_mover(name: str, raw: Raw, cycle: Cycle, evictor: EvictorArgs | None = None) -> None:
    """Give one mover, with these arguments, its turn."""
    if len(cycle.scene.hosts) < FEWEST_NODES:
        return
    one = movers[name]
    one.run(msgspec.convert(raw, one.args, strict=False), Round(cycle, evictor, name))


def take(pods: Iterable[tuple[Resident, str]], round_: Round) -> Answer:
    """Evict these (with their reasons) one by one, those of a node that has given enough excepted."""
    spent: set[str] = set()
    for pod, reason in pods:
        node = pod.pod.spec.node_name
        if node in spent or pod.key in round_.cycle.taken:
            continue
        if not round_.evictable(pod):
            round_.spare(pod, "the policy protects it")
            continue
        if not round_.ready_to_go(pod):
            continue
        answer = round_.evict(pod, reason)
        if answer is Answer.TOTAL_LIMIT:
            return answer
        if answer is Answer.NODE_LIMIT:
            spent.add(node)
    return Answer.EVICTED


def each_pod(round_: Round, args: PodArgs, *, finished: bool = False) -> Iterator[tuple[Host, Resident]]:
    """Every pod that the arguments mean, node by node."""
    pods_on = round_.scene.all_pods_on if finished else round_.scene.pods_on
    for here in round_.scene.hosts:
        for pod in pods_on(here.name):
            if args.admit(pod):
                yield here, pod
