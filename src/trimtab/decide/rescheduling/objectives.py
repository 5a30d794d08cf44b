"""Defines objectives: rules that find pods worth moving and the gain of each move, one file each.

@objective("HardViolation", args=NoArgs)
def hard_violation(args: NoArgs, snapshot: ReschedulingSnapshot) -> Iterator[MoveCandidate]:
    yield MoveCandidate(pod, 100.0, "why")
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from trimtab.api.value import Value
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.rescheduling.score_gain import MoveForecast, TrialFleet
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.registry import Registry

FULL_GAIN = 100.0


class NoArgs(Value):
    """The objective has no arguments."""


class MoveCandidate(NamedTuple):
    """A pod worth moving."""

    pod: PodInfo
    gain: float
    reason: str
    reevaluate: Callable[[TrialFleet, MoveForecast], float] | None = None
    """Computes the gain again after earlier moves of the round; None: it stays the same."""
    urgent: bool = False
    """The pod has a problem on its node: minimum age, preferences and scheduler are ignored."""
    for_pod: str = ""
    """The uid of the pod that this one makes room for."""
    group: str = ""
    """Moves with the same name are made together or not at all."""
    step: int = 0
    """Their order, where later ones need the capacity that earlier ones free; 0 when all can go at once."""
    skips_fit_check: bool = False
    """The target node is not simulated: the scheduler decides."""
    free: bool = False
    """No running pod is disrupted."""


FindCandidates = Callable[[Any, ReschedulingSnapshot], Iterator[MoveCandidate]]


class Objective(NamedTuple):
    name: str
    args: type[Value]
    find: FindCandidates


objectives: Registry[Objective] = Registry("objective")


def objective(name: str, *, args: type[Value] = NoArgs) -> Callable[[FindCandidates], FindCandidates]:
    def register(find: FindCandidates) -> FindCandidates:
        objectives.add(name, Objective(name, args, find))
        return find

    return register
