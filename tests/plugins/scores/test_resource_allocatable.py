import numpy as np

from plugins.clusters import cluster, fleet
from trimtab.api.kinds.policy import ScoreCoordinate
from trimtab.decide.framework import prioritizers
from trimtab.decide.request import ScoreQuery
from trimtab.plugins import load

load()


def test_allocatable_ranks_the_feasible_from_the_smallest_to_the_largest() -> None:
    def of(name: str, cpu: str) -> object:
        return cluster(name, status={"resourceSummary": {"allocatable": {"cpu": cpu}}})

    all_clusters = fleet(of("m1", "4"), of("m2", "8"), of("m3", "16"), cluster("m4"))
    plugin = prioritizers["ResourceAllocatableCPU"]
    assert plugin.array is not None
    feasible = np.array([True, True, False, True])
    assert plugin.array(ScoreQuery(ScoreCoordinate()), all_clusters, feasible).tolist() == [-100, 100, 0, 0]
