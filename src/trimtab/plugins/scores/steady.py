"""Grade the clusters where something already is above all others, when a prioritizer policy asks for it."""

from trimtab.decide.ask import Question
from trimtab.decide.fleet import Fleet, Named
from trimtab.decide.framework import Grade, prioritizer


@prioritizer("Steady", about=lambda question: question.placed)
def steady(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    return lambda _: 100
