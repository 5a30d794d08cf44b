"""Score clusters by published AddOnPlacementScores."""

from trimtab.api.kinds.policy import AddOnScore
from trimtab.decide.fleet import Fleet, Named
from trimtab.decide.framework import Grade, prioritizer
from trimtab.decide.request import Question


def coordinate(question: Question) -> tuple[str, str]:
    score = question.coordinate.add_on or AddOnScore()
    return score.resource_name, score.score_name


@prioritizer("AddOn", reads=coordinate)
def addon(question: Question, fleet: Fleet[Named]) -> Grade[Named]:
    resource, score = coordinate(question)

    def grade(target: Named) -> int:
        scores = fleet.about(f"AddOnPlacementScore/{resource}", target.name)
        return 0 if scores is None else int(scores.get(score, 0))  # a missing or expired score is neutral

    return grade
