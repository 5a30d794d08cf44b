"""Score clusters by published AddOnPlacementScores."""

from trimtab.api.kinds.policy import AddOnScore
from trimtab.decide.fleet import Fleet, Named
from trimtab.decide.framework import Scorer, prioritizer
from trimtab.decide.request import ScoreQuery


def resource_and_score(query: ScoreQuery) -> tuple[str, str]:
    score = query.coordinate.add_on or AddOnScore()
    return score.resource_name, score.score_name


@prioritizer("AddOn", reads=resource_and_score)
def addon(query: ScoreQuery, fleet: Fleet[Named]) -> Scorer[Named]:
    resource, score = resource_and_score(query)

    def grade(target: Named) -> int:
        scores = fleet.external_value(f"AddOnPlacementScore/{resource}", target.name)
        return 0 if scores is None else int(scores.get(score, 0))  # a missing or expired score is neutral

    return grade
