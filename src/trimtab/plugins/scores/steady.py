"""Grade the clusters where something already is above all others, when a prioritizer policy asks for it."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet, Named
from trimtab.decide.framework import Grade, Mask, prioritizer
from trimtab.decide.request import Question


def sweep(question: Question, fleet: Fleet[Named], feasible: Mask) -> Array:
    graded = np.zeros(len(fleet), dtype=np.int64)
    graded[fleet.columns(question.placed)] = 100
    return graded


@prioritizer("Steady", about=lambda question: question.placed, sweep=sweep)
def steady(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    return lambda _: 100
