"""What a Placement is answered: the clusters, in groups, and how well that went."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

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
    """Some of the chosen clusters, in the order of names or of their totals."""

    name: str
    clusters: list[str]


class Found(NamedTuple):
    """The result of the search. Columns are those of the fleet that was asked, in the order of names."""

    feasible: Array
    """The columns that passed every filter."""
    chosen: Array
    """Those of them that the Placement gets."""
    totals: Array | None = None
    """The total of each feasible column; None when no prioritizer was reached."""
    unscheduled: int = 0
    """How many clusters are missing."""
    status: Status = WENT_WELL
    warnings: tuple[Status, ...] = ()
    """All that could stand in `status`: upstream picks one of several at random."""
    again_at: datetime | None = None
    """When a toleration of a cluster in use ends."""
    scores_until: datetime | None = None
    """When the first of the scores in use expires."""

    @property
    def ranked(self) -> Array:
        """The chosen columns, best first; equal totals in the order of names."""
        if self.totals is None:
            return self.chosen
        places = np.searchsorted(self.feasible, self.chosen)
        ranked: Array = self.chosen[np.argsort(-self.totals[places], kind="stable")]
        return ranked


class Answer(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The answer to one Placement."""

    bound: tuple[str, ...]
    """The sets that the namespace is bound to, sorted."""
    eligible: tuple[str, ...]
    """Those of them that the Placement asks for."""
    available: int
    """How many clusters these sets have."""
    found: Found
    order: Array
    """The chosen columns as they are to be listed."""
    grouping: Callable[[Array], tuple[tuple[Group, ...], str]]
    """Puts columns into groups; most answers are as they were, and then nobody asks."""

    @cached_property
    def _grouped(self) -> tuple[tuple[Group, ...], str]:
        return self.grouping(self.order)

    @property
    def groups(self) -> tuple[Group, ...]:
        return self._grouped[0]

    @property
    def group_fault(self) -> str:
        """Why some of the chosen clusters are in no group."""
        return self._grouped[1]

    @property
    def status(self) -> Status:
        return self.found.status

    @property
    def number(self) -> int:
        """How many clusters were chosen."""
        return len(self.found.chosen)

    @property
    def fault(self) -> str:
        """What a queue would be told: why this should be tried again."""
        return self.group_fault or self.status.message
