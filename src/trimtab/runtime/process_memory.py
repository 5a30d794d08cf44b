"""Values that controllers remember in the process: bounded per topic, the oldest are dropped first.

Most values are about one object. They are forgotten when it is deleted: a control plane that runs for months would
otherwise keep what it knew of every workload that ever existed.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, TypeVar

from trimtab.controllers.contract import Topic

K = TypeVar("K")
V = TypeVar("V")


class ProcessMemory:
    """Values by topic and key. A dropped value is computed again; correctness never depends on it."""

    def __init__(self) -> None:
        self._values: dict[Topic[Any, Any], OrderedDict[Any, tuple[Any, Hashable]]] = {}
        """Values with their owners by topic and key, the oldest first."""
        self._owned: dict[Hashable, set[tuple[Topic[Any, Any], Any]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def keys(self, topic: Topic[K, Any]) -> list[K]:
        """The keys of all values of a topic, the oldest first."""
        return list(self._values.get(topic, ()))

    def recall(self, topic: Topic[K, V], key: K) -> V | None:
        values = self._values.get(topic)
        entry = values.get(key) if values is not None else None
        found: V | None = entry[0] if entry is not None else None
        return found

    def remember(self, topic: Topic[K, V], key: K, value: V, owner: Hashable = None) -> None:
        """Keep the value; with an `owner`, until that is forgotten."""
        values = self._values.get(topic)
        if values is None:
            values = self._values[topic] = OrderedDict()
        before = values.pop(key, None)
        values[key] = (value, owner)  # the newest
        if before is not None and owner != before[1]:
            self._disown(topic, key, before[1])
        if owner is not None:
            self._owned.setdefault(owner, set()).add((topic, key))
        if len(values) > topic.limit:
            oldest, dropped = values.popitem(last=False)
            self._disown(topic, oldest, dropped[1])

    def forget(self, owner: Hashable) -> None:
        """Drop every value of the owner."""
        for topic, key in self._owned.pop(owner, ()):
            self._values[topic].pop(key, None)

    @property
    def owner_count(self) -> int:
        """Number of owners that have values."""
        return len(self._owned)

    def _disown(self, topic: Topic[Any, Any], key: Any, owner: Hashable) -> None:
        if owner is not None and (owned := self._owned.get(owner)) is not None:
            owned.discard((topic, key))
            if not owned:
                del self._owned[owner]
