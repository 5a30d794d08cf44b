"""What an objective is: a rule that finds pods worth moving and says what each move gains, one file each.

@objective("HardViolation", args=NoArgs)
def hard_violation(args: NoArgs, picture: Picture) -> Iterator[Candidate]:
    yield Candidate(pod, 100.0, "why")
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from trimtab.api.value import Value
from trimtab.decide.pods.node_info import Resident
from trimtab.decide.rescheduling.score_gain import Bench, Prospect
from trimtab.decide.rescheduling.snapshot import Picture
from trimtab.registry import Registry

FULL = 100.0


class NoArgs(Value):
    """There is nothing to set."""


class Candidate(NamedTuple):
    """A pod worth moving."""

    pod: Resident
    gain: float
    reason: str
    again: Callable[[Bench, Prospect], float] | None = None
    """What the move is worth once earlier moves of the round have been made; None is as before."""
    urgent: bool = False
    """Something is wrong with the pod where it is: age, preference and scheduler do not matter."""
    until: str = ""
    """The uid of the pod for whose sake this one makes way."""
    together: str = ""
    """Moves of one name make sense only all together."""
    step: int = 0
    """Their order, where later ones need the room that earlier ones make; 0 when all may go at once."""
    blind: bool = False
    """Nobody asks where it will go: its scheduler will know."""
    free: bool = False
    """Nothing that runs is disturbed."""


Find = Callable[[Any, Picture], Iterator[Candidate]]


class Objective(NamedTuple):
    name: str
    args: type[Value]
    find: Find


objectives: Registry[Objective] = Registry("objective")


def objective(name: str, *, args: type[Value] = NoArgs) -> Callable[[Find], Find]:
    def register(find: Find) -> Find:
        objectives.add(name, Objective(name, args, find))
        return find

    return register
