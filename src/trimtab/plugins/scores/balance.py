"""Grade clusters by how seldom others have chosen them."""

from trimtab.decide.ask import Question
from trimtab.decide.fleet import Fleet, Named
from trimtab.decide.framework import Grade, prioritizer


@prioritizer("Balance")
def balance(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    chosen = {name: int(note.value) for name, note in fleet.notes.get("Decisions", {}).items()}
    most = max(chosen.values(), default=0)

    def grade(target: Named) -> int:
        times = chosen.get(target.name, 0)
        return 100 if times == 0 else 2 * int(100 * (0.5 - times / most))

    return grade
