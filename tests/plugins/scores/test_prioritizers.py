from datetime import timedelta

import numpy as np

from plugins.clusters import cluster, fleet
from trimtab.api.kinds.policy import AddOnScore, ScoreCoordinate
from trimtab.clock import EPOCH
from trimtab.decide.fleet import Note
from trimtab.decide.framework import grades, prioritizers
from trimtab.decide.request import Popularity, Question
from trimtab.plugins import load

load()
M1, M2, M3 = cluster("m1"), cluster("m2"), cluster("m3")
GREEN = Question(ScoreCoordinate(type="AddOn", add_on=AddOnScore(resource_name="carbon", score_name="green")))


def test_addon_takes_the_published_number_and_nothing_for_a_missing_or_expired_one() -> None:
    sheets = {"m1": Note({"green": 70}), "m2": Note({"green": 90}, until=EPOCH), "m3": Note({"blue": 5})}
    picture = fleet(M1, M2, M3, notes={"AddOnPlacementScore/carbon": sheets})
    assert grades(prioritizers["AddOn"], GREEN, picture).tolist() == [70, 90, 0]
    assert grades(prioritizers["AddOn"], GREEN, picture.at(EPOCH + timedelta(seconds=1))).tolist() == [70, 0, 0]


def test_balance_prefers_clusters_that_others_seldom_chose() -> None:
    chosen = Question(ScoreCoordinate(), popularity=Popularity(np.array([3, 1, 0]), {}))
    assert grades(prioritizers["Balance"], chosen, fleet(M1, M2, M3)).tolist() == [-100, 32, 100]


def test_balance_does_not_count_ones_own_choice_against_a_cluster() -> None:
    chosen = Question(ScoreCoordinate(), decided=("m1",), popularity=Popularity(np.array([1, 1, 0]), {}))
    assert grades(prioritizers["Balance"], chosen, fleet(M1, M2, M3)).tolist() == [100, -100, 100]


def test_steady_prefers_the_clusters_in_use() -> None:
    placed = Question(ScoreCoordinate(), placed=("m2",))
    assert grades(prioritizers["Steady"], placed, fleet(M1, M2)).tolist() == [0, 100]


def test_allocatable_ranks_the_feasible_from_the_smallest_to_the_largest() -> None:
    def of(name: str, cpu: str) -> object:
        return cluster(name, status={"resourceSummary": {"allocatable": {"cpu": cpu}}})

    picture = fleet(of("m1", "4"), of("m2", "8"), of("m3", "16"), cluster("m4"))
    plugin = prioritizers["ResourceAllocatableCPU"]
    assert plugin.sweep is not None
    feasible = np.array([True, True, False, True])
    assert plugin.sweep(Question(ScoreCoordinate()), picture, feasible).tolist() == [-100, 100, 0, 0]
