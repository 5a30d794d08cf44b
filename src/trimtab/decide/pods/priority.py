"""Ranks of priority classes: by value, and by the administrator's order among equal values."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass


class PriorityRanks(NamedTuple):
    """Integer ranks of priority classes: in the order of their values, and by position where values are equal."""

    by_name: Mapping[str, int] = {}

    def rank_of(self, pod: Pod) -> int:
        return self.by_name.get(pod.spec.priority_class_name, pod.spec.priority or 0)

    def with_rank(self, pod: Pod) -> Pod:
        """Return the pod with its rank as priority, which all comparisons of pods read."""
        rank = self.rank_of(pod)
        return pod if rank == (pod.spec.priority or 0) else pod.but(spec=pod.spec.but(priority=rank))


RANKS_BY_VALUE = PriorityRanks()


def priority_ranks(classes: Iterable[PriorityClass], order: PriorityOrder | None) -> PriorityRanks:
    """Compute ranks; of classes with equal value, one listed earlier ranks directly above one listed later."""
    names = order.spec.names if order is not None else ()
    if not names:
        return RANKS_BY_VALUE
    position_of = {name: len(names) - position for position, name in enumerate(names)}
    by_rank = sorted(classes, key=lambda one: (one.value, position_of.get(one.name, 0), one.name))
    found: dict[str, int] = {}
    before, rank = None, 0
    for one in by_rank:
        level = (one.value, position_of.get(one.name, 0))
        rank = rank if level == before else one.value if before is None else max(one.value, rank + 1)
        found[one.name], before = rank, level
    return PriorityRanks(found)
