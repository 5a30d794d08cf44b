"""Process memory is bounded per topic."""

from typing import Any

from trimtab.controllers.contract import Topic
from trimtab.runtime.process_memory import ProcessMemory

LIMIT = 40
DECISION: Topic[Any, Any] = Topic("decision", limit=LIMIT)
SEEN: Topic[Any, Any] = Topic("seen")
SENT: Topic[Any, Any] = Topic("sent")


def test_oldest_value_of_a_topic_is_dropped_first() -> None:
    memory = ProcessMemory()
    for number in range(LIMIT + 1):
        memory.remember(DECISION, number, "made")
    assert memory.recall(DECISION, 0) is None
    assert memory.recall(DECISION, LIMIT) == "made"
    assert len(memory) == LIMIT


def test_value_remembered_again_counts_as_new() -> None:
    memory = ProcessMemory()
    memory.remember(DECISION, "kept", 1)
    for number in range(LIMIT - 1):
        memory.remember(DECISION, number, 1)
    memory.remember(DECISION, "kept", 2)
    memory.remember(DECISION, "one more", 1)
    assert memory.recall(DECISION, "kept") == 2


def test_topics_of_the_same_name_are_different() -> None:
    memory = ProcessMemory()
    memory.remember(SEEN, "a", 1)
    assert memory.recall(Topic("seen"), "a") is None


def test_values_of_an_owner_are_forgotten_with_it() -> None:
    memory = ProcessMemory()
    for owner in ("a", "b"):
        memory.remember(SEEN, (owner, 1), "x", owner)
        memory.remember(SENT, (owner, 2), "y", owner)
    memory.remember(SEEN, "everyone", "z")
    memory.forget("a")
    memory.forget("a")
    assert memory.keys(SEEN) == [("b", 1), "everyone"]
    assert memory.keys(SENT) == [("b", 2)]


def test_value_that_another_owner_remembered_again_stays() -> None:
    memory = ProcessMemory()
    memory.remember(SEEN, "shared", 1, "a")
    memory.remember(SEEN, "shared", 2, "b")
    memory.forget("a")
    assert memory.recall(SEEN, "shared") == 2
    memory.forget("b")
    assert len(memory) == 0


def test_nothing_is_kept_of_values_that_were_dropped_or_forgotten() -> None:
    memory = ProcessMemory()
    for number in range(LIMIT + 3):
        memory.remember(DECISION, number, 1, f"owner {number}")
    assert memory.owner_count == LIMIT
    for number in range(LIMIT + 3):
        memory.forget(f"owner {number}")
    assert (len(memory), memory.owner_count) == (0, 0)
