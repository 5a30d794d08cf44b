"""Process memory is bounded per topic."""

from trimtab.runtime.process_memory import MOST_OF, Memory


def test_oldest_value_of_a_topic_is_dropped_first() -> None:
    memory = Memory()
    most = MOST_OF["decision"]
    for number in range(most + 1):
        memory.keep("decision", number, "made")
    assert ("decision", 0) not in memory
    assert memory["decision", most] == "made"
    assert len(memory) == most


def test_value_remembered_again_counts_as_new() -> None:
    memory = Memory()
    memory.keep("decision", "kept", 1)
    for number in range(MOST_OF["decision"] - 1):
        memory.keep("decision", number, 1)
    memory.keep("decision", "kept", 2)
    memory.keep("decision", "one more", 1)
    assert memory["decision", "kept"] == 2
