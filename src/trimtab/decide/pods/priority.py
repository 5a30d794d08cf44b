"""Which pods matter more: the values of priority classes, and the order of names that an administrator puts above them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.kinds.disruption import PriorityOrder
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.scheduling import PriorityClass


class Ranks(NamedTuple):
    """Whole numbers for priority classes: in the order of their values, and by position where values are shared."""

    by_name: Mapping[str, int] = {}

    def of(self, pod: Pod) -> int:
        return self.by_name.get(pod.spec.priority_class_name, pod.spec.priority or 0)

    def ranked(self, pod: Pod) -> Pod:
        """The pod with its rank as priority: what everybody who compares pods looks at."""
        rank = self.of(pod)
        return pod if rank == (pod.spec.priority or 0) else pod.but(spec=pod.spec.but(priority=rank))


BY_VALUE = Ranks()


def ranks(classes: Iterable[PriorityClass], order: PriorityOrder | None) -> Ranks:
    """A class that shares its value with another comes right above it when it is named before it."""
    names = order.spec.names if order is not None else ()
    if not names:
        return BY_VALUE
    place = {name: len(names) - position for position, name in enumerate(names)}
    ladder = sorted(classes, key=lambda one: (one.value, place.get(one.name, 0), one.name))
    found: dict[str, int] = {}
    before, step = None, 0
    for one in ladder:
        level = (one.value, place.get(one.name, 0))
        step = step if level == before else one.value if before is None else max(one.value, step + 1)
        found[one.name], before = step, level
    return Ranks(found)
