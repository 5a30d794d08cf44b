"""What a Placement is answered: the clusters in order and in groups, and how well that went."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from trimtab.decide.fleet import Array

SUCCESS, WARNING, MISCONFIGURED, ERROR = "Success", "Warning", "Misconfigured", "Error"


class Misconfigured(Exception):
    """The Placement, or a set, cannot be understood; says which plugin found out (empty: none) and why."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.message = message


class Status(NamedTuple):
    """How the search for clusters went."""

    code: str = SUCCESS
    plugin: str = ""
    message: str = ""


WENT_WELL = Status()


class Group(NamedTuple):
    """Some of the chosen clusters, in the order of names."""

    name: str
    clusters: list[str]


class Stage(NamedTuple):
    """What was left after a filter and those before it; columns of the fleet."""

    name: str
    columns: Array


class Graded(NamedTuple):
    """What one prioritizer says of every column."""

    name: str
    weight: int
    grades: Array | None
    """None: it says nothing."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, and all that led to it. Columns are those of the fleet that was asked."""

    bound: tuple[str, ...]
    """The sets that the namespace is bound to, sorted."""
    eligible: tuple[str, ...]
    """Those of them that the Placement asks for."""
    available: int
    """How many clusters these sets have."""
    stages: tuple[Stage, ...] = ()
    feasible: Array
    """The columns that passed every filter."""
    graded: tuple[Graded, ...] = ()
    totals: Array | None = None
    """Per feasible column; None when no prioritizer was reached."""
    ranked: Array
    """The chosen columns, best first."""
    unscheduled: int = 0
    status: Status = WENT_WELL
    warnings: tuple[Status, ...] = ()
    """All that could stand in `status`: upstream picks one of several at random."""
    again_at: datetime | None = None
    """When a toleration of a cluster in use ends."""
    scores_until: datetime | None = None
    """When the first of the scores in use expires."""
    groups: tuple[Group, ...] = ()
    group_fault: str = ""

    @property
    def chosen(self) -> int:
        return len(self.ranked)

    @property
    def fault(self) -> str:
        """What a queue would be told: why this should be tried again."""
        return self.group_fault or self.status.message
