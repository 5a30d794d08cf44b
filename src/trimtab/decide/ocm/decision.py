"""The decision for a Placement: its clusters in groups, and the status of the search."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from trimtab.api.lazy import lazily
from trimtab.decide.fleet import Array
from trimtab.decide.shared_totals import Totals

SUCCESS, WARNING, MISCONFIGURED, ERROR = "Success", "Warning", "Misconfigured", "Error"


class Misconfigured(Exception):
    """The Placement or a cluster set is invalid; names the plugin that detected it (empty: none) and the reason."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.message = message


class SearchStatus(NamedTuple):
    """The status of the search for clusters."""

    code: str = SUCCESS
    plugin: str = ""
    message: str = ""


SUCCESS_STATUS = SearchStatus()


class OcmDecisionGroup(NamedTuple):
    """Some of the chosen clusters, in order of names or totals."""

    name: str
    clusters: list[str]


class SearchResult(NamedTuple):
    """The result of the search. Columns are those of the fleet, in name order."""

    feasible: Array
    """The columns that passed every filter."""
    chosen: list[int]
    """The columns that the Placement gets. Belongs to the cache, do not write to it."""
    compute_totals: Callable[[], Totals] | None = None
    """The totals of the prioritizers, computed when they are read; None when no prioritizer ran."""
    unscheduled: int = 0
    """How many clusters are missing."""
    status: SearchStatus = SUCCESS_STATUS
    warnings: tuple[SearchStatus, ...] = ()
    """All candidates for `status`: OCM picks one of several at random."""
    recheck_at: datetime | None = None
    """When a toleration of a cluster in use ends."""
    scores_until: datetime | None = None
    """When the first of the scores in use expires."""

    @property
    def totals(self) -> Array | None:
        """The total of each feasible column; None when no prioritizer ran."""
        return None if self.compute_totals is None else self.compute_totals().by_column()[self.feasible]

    @property
    def by_rank(self) -> list[int]:
        """The chosen columns, best first; equal totals in name order."""
        if self.compute_totals is None:
            return self.chosen
        totals = self.compute_totals().by_column()[self.chosen].tolist()
        return [column for _, column in sorted(zip(totals, self.chosen, strict=True), key=lambda one: -one[0])]


class OcmDecision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The decision for one Placement."""

    bound_sets: tuple[str, ...]
    """The sets that the namespace is bound to, sorted."""
    eligible_sets: tuple[str, ...]
    """The bound sets that the Placement selects."""
    available_clusters: int
    """How many clusters these sets have."""
    result: SearchResult
    order: list[int]
    """The chosen columns in the order in which they are listed."""
    group_columns: Callable[[list[int]], tuple[tuple[OcmDecisionGroup, ...], str]]
    """Splits columns into groups; evaluated lazily, because most decisions do not change."""

    @lazily
    def _groups_and_error(self) -> tuple[tuple[OcmDecisionGroup, ...], str]:
        return self.group_columns(self.order)

    @property
    def groups(self) -> tuple[OcmDecisionGroup, ...]:
        return self._groups_and_error[0]

    @property
    def group_error(self) -> str:
        """Why some of the chosen clusters are in no group."""
        return self._groups_and_error[1]

    @property
    def status(self) -> SearchStatus:
        return self.result.status

    @property
    def chosen_count(self) -> int:
        """How many clusters were chosen."""
        return len(self.result.chosen)

    @property
    def error(self) -> str:
        """Why the Placement should be retried; empty when nothing failed."""
        return self.group_error or self.status.message
