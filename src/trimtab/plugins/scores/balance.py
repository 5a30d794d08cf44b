"""Grade clusters by how seldom others have chosen them."""

from functools import lru_cache

import numpy as np

from trimtab.decide.ask import Question
from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Grade, Mask, prioritizer

NOTE = "Decisions"


@lru_cache(maxsize=256)
def ladder(most: int) -> Array:
    """The grade by how often a cluster was chosen, when the most popular was chosen so often."""
    return np.array([100, *(2 * int(100 * (0.5 - times / most)) for times in range(1, most + 1))], dtype=np.int64)


def chosen(fleet: Fleet[Named]) -> Array:
    """How often each target was chosen."""
    notes = fleet.notes.get(NOTE, {})
    return fleet.column("times chosen", lambda: lambda target: notes[target.name].value if target.name in notes else 0)


def strangers(fleet: Fleet[Named]) -> dict[str, int]:
    """Clusters that were chosen and are not in the fleet: they, too, may be the most popular."""
    notes = fleet.notes.get(NOTE, {})
    return fleet.derived("strangers chosen", lambda: {name: notes[name].value for name in notes.keys() - fleet.index})


def sweep(question: Question, fleet: Fleet[Named], feasible: Mask) -> Array:
    times, others = chosen(fleet), strangers(fleet)
    if question.decided:
        times = times.copy()
        others = dict(others) if others else others
        for name in question.decided:
            if (column := fleet.index.get(name)) is not None:
                times[column] -= 1
            elif name in others:
                others[name] -= 1
    most = max(int(times.max(initial=0)), max(others.values(), default=0))
    graded: Array = ladder(most)[times]
    return graded


@prioritizer("Balance", sweep=sweep)
def balance(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    graded = sweep(question, fleet, np.ones(len(fleet), dtype=bool))
    return lambda target: int(graded[fleet.index[target.name]])
