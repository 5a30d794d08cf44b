"""Process memory is bounded per topic."""

from trimtab.runtime.process_memory import MAX_OF_TOPIC, ProcessMemory


def test_oldest_value_of_a_topic_is_dropped_first() -> None:
    memory = ProcessMemory()
    most = MAX_OF_TOPIC["decision"]
    for number in range(most + 1):
        memory.remember("decision", number, "made")
    assert ("decision", 0) not in memory
    assert memory["decision", most] == "made"
    assert len(memory) == most


def test_value_remembered_again_counts_as_new() -> None:
    memory = ProcessMemory()
    memory.remember("decision", "kept", 1)
    for number in range(MAX_OF_TOPIC["decision"] - 1):
        memory.remember("decision", number, 1)
    memory.remember("decision", "kept", 2)
    memory.remember("decision", "one more", 1)
    assert memory["decision", "kept"] == 2


def test_values_of_an_owner_are_forgotten_with_it() -> None:
    memory = ProcessMemory()
    for owner in ("a", "b"):
        memory.remember("seen", (owner, 1), "x", owner)
        memory.remember("sent", (owner, 2), "y", owner)
    memory.remember("seen", "everyone", "z")
    memory.forget("a")
    memory.forget("a")
    assert set(memory) == {("seen", ("b", 1)), ("sent", ("b", 2)), ("seen", "everyone")}


def test_value_that_another_owner_remembered_again_stays() -> None:
    memory = ProcessMemory()
    memory.remember("seen", "shared", 1, "a")
    memory.remember("seen", "shared", 2, "b")
    memory.forget("a")
    assert memory["seen", "shared"] == 2
    memory.forget("b")
    assert not memory


def test_nothing_is_kept_of_values_that_were_dropped_or_forgotten() -> None:
    memory = ProcessMemory()
    for number in range(MAX_OF_TOPIC["decision"] + 3):
        memory.remember("decision", number, 1, f"owner {number}")
    assert memory.owner_count == MAX_OF_TOPIC["decision"]
    for number in range(MAX_OF_TOPIC["decision"] + 3):
        memory.forget(f"owner {number}")
    assert (len(memory), memory.owner_count) == (0, 0)
