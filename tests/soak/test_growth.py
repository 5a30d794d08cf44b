"""Growth is found by name, and noise is not growth."""

from collections import deque
from functools import cache
from typing import Any

from soak.growth import growing, measure
from trimtab.controllers.contract import Topic
from trimtab.runtime.process_memory import ProcessMemory
from trimtab.runtime.queue import WorkQueue

TOPIC: Topic[int, deque[Any]] = Topic("topic")


def test_steady_growth_is_found_and_named() -> None:
    points = [{"Cache.entries": 100 * n, "steady": 7} for n in range(1, 7)]
    assert growing(points) == ["Cache.entries grows: 100, 200, 300, 400, 500, 600"]


def test_growth_that_ends_or_varies_is_accepted() -> None:
    assert growing([{"a": n} for n in (100, 900, 400, 500, 300, 800)]) == []
    assert growing([{"a": n} for n in (1000, 1000, 1000, 1100, 1100, 1100)]) == []
    assert growing([{"a": n} for n in (1, 2, 3, 4, 5, 6)]) == []


def test_containers_of_objects_and_caches_are_counted(tmp_path) -> None:  # type: ignore[no-untyped-def]
    before = measure(tmp_path)
    memory = ProcessMemory()
    queue: WorkQueue[str] = WorkQueue()
    for number in range(50):
        memory.remember(TOPIC, number, deque())
        queue.retry_count = number  # type: ignore[attr-defined]
        queue._failures[str(number)] = 1
    (tmp_path / "file").write_bytes(bytes(1000))
    after = measure(tmp_path)
    assert after["ProcessMemory._values"] - before.get("ProcessMemory._values", 0) == 51, "one topic with 50 values"
    assert after["WorkQueue._failures"] - before.get("WorkQueue._failures", 0) == 50
    assert after[f"bytes in {tmp_path.name}"] == 1000


def test_entries_of_cached_functions_are_counted() -> None:
    @cache
    def double(number: int) -> int:
        return 2 * number

    for number in range(30):
        double(number)
    assert max(size for name, size in measure().items() if name.endswith(".double")) == 30
