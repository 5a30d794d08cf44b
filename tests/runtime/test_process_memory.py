"""What is remembered has an end."""

from trimtab.runtime.process_memory import MOST_OF, Memory


def test_the_oldest_of_a_topic_is_forgotten_first() -> None:
    memory = Memory()
    most = MOST_OF["decision"]
    for number in range(most + 1):
        memory.keep("decision", number, "made")
    assert ("decision", 0) not in memory
    assert memory["decision", most] == "made"
    assert len(memory) == most


def test_what_is_remembered_again_is_young_again() -> None:
    memory = Memory()
    memory.keep("decision", "kept", 1)
    for number in range(MOST_OF["decision"] - 1):
        memory.keep("decision", number, 1)
    memory.keep("decision", "kept", 2)
    memory.keep("decision", "one more", 1)
    assert memory["decision", "kept"] == 2
