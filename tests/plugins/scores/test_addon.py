from datetime import timedelta

from plugins.clusters import cluster, final_scores, fleet
from trimtab.api.kinds.policy import AddOnScore, ScoreCoordinate
from trimtab.clock import EPOCH
from trimtab.decide.fleet import ExternalValue
from trimtab.decide.framework import prioritizers
from trimtab.decide.request import ScoreQuery
from trimtab.plugins import load

load()
M1, M2, M3 = cluster("m1"), cluster("m2"), cluster("m3")
GREEN = ScoreQuery(ScoreCoordinate(type="AddOn", add_on=AddOnScore(resource_name="carbon", score_name="green")))


def test_addon_uses_the_published_score_and_0_for_a_missing_or_expired_one() -> None:
    scores = {
        "m1": ExternalValue({"green": 70}),
        "m2": ExternalValue({"green": 90}, until=EPOCH),
        "m3": ExternalValue({"blue": 5}),
    }
    all_clusters = fleet(M1, M2, M3, external_values={"AddOnPlacementScore/carbon": scores})
    assert final_scores(prioritizers["AddOn"], GREEN, all_clusters) == [70, 90, 0]
    later = all_clusters.at(EPOCH + timedelta(seconds=1))
    assert final_scores(prioritizers["AddOn"], GREEN, later) == [70, 0, 0]
