"""Values that controllers remember in the process: bounded per topic, the oldest are dropped first."""

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
        self._order: dict[str, OrderedDict[Hashable, None]] = {}

    def remember(self, topic: str, key: Hashable, value: Any) -> None:
        self[topic, key] = value
        order = self._order.get(topic)
        if order is None:
            order = self._order[topic] = OrderedDict()
        order[key] = None
        order.move_to_end(key)
        if len(order) > MAX_OF_TOPIC.get(topic, MAX_PER_TOPIC):
            oldest, _ = order.popitem(last=False)
            self.pop((topic, oldest), None)
