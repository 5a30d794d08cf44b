"""What a run of the chaos test records: facts in the order in which they were observed.

Facts about one API server have the order of its revisions. Facts of different servers are ordered by the time at which
the recorder received them, so a rule that compares servers must allow for a small delay.
"""

from typing import NamedTuple, TypeAlias

from trimtab.api.value import Raw


class PodFact(NamedTuple):
    """The state of a pod of an app in a member after a change."""

    at: float
    member: str
    pod: str
    app: str
    ready: bool
    deleting: bool = False
    """Whether the pod is being deleted, or is gone."""


class DesiredFact(NamedTuple):
    """How many replicas the object of an app in a member asks for; None when there is no such object."""

    at: float
    member: str
    app: str
    replicas: int | None


class WantedFact(NamedTuple):
    """How many replicas the template of an app asks for; None when it is deleted."""

    at: float
    app: str
    replicas: int | None


class MoveFact(NamedTuple):
    """A Move as it is stored after a change; facts are in the order of the host's revisions."""

    at: float
    move: Raw


class BudgetFact(NamedTuple):
    at: float
    budget: Raw


class FaultFact(NamedTuple):
    """The driver disturbed a process at this time, or ended the disturbance."""

    at: float
    target: str
    what: str


class GapFact(NamedTuple):
    """A watch could not be resumed: what happened in between is not known."""

    at: float
    source: str


Fact: TypeAlias = PodFact | DesiredFact | WantedFact | MoveFact | BudgetFact | FaultFact | GapFact
