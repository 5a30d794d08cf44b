"""Replica counts of the workloads that one budget covers, and their sums."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class WorkloadCount(NamedTuple):
    """What one workload of the budget's namespace adds to the sums."""

    object: str
    """The name of the workload in the status of budgets."""
    clusters: tuple[str, ...]
    """The clusters that report replicas of it: whether they are ready decides how many of these count."""
    desired: int = 0
    ready: int = 0
    is_covered: bool = False
    """Whether the budget selects the workload; a change of its template's labels may change that."""


class WorkloadCounts:
    """The sums over all workloads, and what has to be counted again since the last time they were read.

    A budget may cover every workload of a namespace, and its sums are read whenever one of them changes or wants to move. So
    only the workloads that something has changed about are counted again.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are the bindings to count."""
        self.desired = 0
        self.ready = 0
        self._counts: dict[str, WorkloadCount] = {}
        self._by_object: dict[str, set[str]] = {}
        self._by_cluster: dict[str, set[str]] = {}
        self._changed = set(names)

    def binding_changed(self, name: str) -> None:
        self._changed.add(name)

    def object_changed(self, name: str) -> None:
        """A template was created or deleted, or has other labels."""
        self._changed |= self._by_object.get(name, set())

    def cluster_changed(self, name: str) -> None:
        """A cluster became ready or is no longer ready."""
        self._changed |= self._by_cluster.get(name, set())

    def take_changed(self) -> set[str]:
        """The bindings to count again."""
        changed, self._changed = self._changed, set()
        return changed

    def put(self, name: str, count: WorkloadCount | None) -> None:
        """The count of a binding as of now; None if it is no workload or no longer exists."""
        old = self._counts.pop(name, None)
        if old is not None:
            self.desired -= old.desired
            self.ready -= old.ready
        if count is not None:
            self.desired += count.desired
            self.ready += count.ready
            self._counts[name] = count
        if (old and old.object) != (count and count.object):
            _update_index(self._by_object, name, (old.object,) if old else (), (count.object,) if count else ())
        if (old and old.clusters) != (count and count.clusters):
            _update_index(self._by_cluster, name, old.clusters if old else (), count.clusters if count else ())

    def covered_bindings(self, object_: str) -> Sequence[str]:
        """The names of the covered bindings of this workload, in order."""
        return sorted(name for name in self._by_object.get(object_, ()) if self._counts[name].is_covered)


def _update_index(names_by_value: dict[str, set[str]], name: str, before: Iterable[str], after: Iterable[str]) -> None:
    for value in before:
        names_by_value[value].discard(name)
        if not names_by_value[value]:
            del names_by_value[value]
    for value in after:
        names_by_value.setdefault(value, set()).add(name)
