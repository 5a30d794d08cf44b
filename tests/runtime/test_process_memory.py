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
