"""Values that controllers remember in the process: bounded per topic, the oldest are dropped first.

Most values are about one object. They are forgotten when it is deleted: a control plane that runs for months would
otherwise keep what it knew of every workload that ever existed.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

MAX_PER_TOPIC = 200_000
MAX_OF_TOPIC = {"decision": 4_096}
"""A decision holds the fleet snapshot it was made on; the last few thousand are enough for `explain`."""


class ProcessMemory(dict[tuple[str, Hashable], Any]):
    """Values by topic and key. A dropped value is computed again; correctness never depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[str, OrderedDict[Hashable, Hashable]] = {}
        """The owner of each value by topic and key, the oldest first."""
        self._owned: dict[Hashable, set[tuple[str, Hashable]]] = {}

    def remember(self, topic: str, key: Hashable, value: Any, owner: Hashable = None) -> None:
        """Keep the value; with an `owner`, until that is forgotten."""
        self[topic, key] = value
        order = self._order.get(topic)
        if order is None:
            order = self._order[topic] = OrderedDict()
        before = order.get(key)
        order[key] = owner
        order.move_to_end(key)
        if owner != before:
            self._disown(topic, key, before)
        if owner is not None:
            self._owned.setdefault(owner, set()).add((topic, key))
        if len(order) > MAX_OF_TOPIC.get(topic, MAX_PER_TOPIC):
            oldest, its_owner = order.popitem(last=False)
            self.pop((topic, oldest), None)
            self._disown(topic, oldest, its_owner)

    def forget(self, owner: Hashable) -> None:
        """Drop every value of the owner."""
        for topic, key in self._owned.pop(owner, ()):
            self.pop((topic, key), None)
            self._order[topic].pop(key, None)

    @property
    def owner_count(self) -> int:
        """Number of owners that have values."""
        return len(self._owned)

    def _disown(self, topic: str, key: Hashable, owner: Hashable) -> None:
        if owner is not None and (owned := self._owned.get(owner)) is not None:
            owned.discard((topic, key))
            if not owned:
                del self._owned[owner]
