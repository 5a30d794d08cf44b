from typing import Any

import numpy as np
import pytest

from plugins.clusters import ask, cluster, fleet
from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.capacity import UNLIMITED, allocatable
from trimtab.decide.request import Gates

MODELS = [
    {"grade": 0, "ranges": [{"name": "cpu", "min": "1", "max": "2"}, {"name": "memory", "min": "4Gi", "max": "8Gi"}]},
    {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "4"}, {"name": "memory", "min": "8Gi", "max": "16Gi"}]},
]


def summed(*, allocated: Any = None, counts: tuple[int, ...] = (), **allocatable_: str) -> Cluster:
    counted = [{"grade": grade, "count": count} for grade, count in enumerate(counts)]
    summary = {"allocatable": allocatable_, "allocated": allocated or {}, "allocatableModelings": counted}
    return cluster(status={"resourceSummary": summary}, resourceModels=MODELS if counts else [])


def room(of: Cluster, replicas: int = 1, **request: str) -> int:
    asked = ask(replicas=replicas, replicaRequirements={"resourceRequest": request})
    return int(allocatable(asked, fleet(of))[0])


def test_the_scarcest_resource_counts() -> None:
    assert room(summed(pods="100", cpu="4", memory="64Gi"), cpu="500m", memory="1Gi") == 8
    assert room(summed(pods="100", cpu="4", memory="2Gi"), cpu="500m", memory="1Gi") == 2
    assert room(summed(pods="3", cpu="4", memory="64Gi"), cpu="500m") == 3


def test_what_is_in_use_is_not_free() -> None:
    used = {"cpu": "3100m", "pods": "1"}
    assert room(summed(pods="100", cpu="4", allocated=used), cpu="300m") == 3


def test_a_resource_that_nobody_offers_is_none() -> None:
    assert room(summed(pods="10", cpu="4"), **{"nvidia.com/gpu": "1"}) == 0


def test_a_request_of_nothing_does_not_count() -> None:
    assert room(summed(pods="10"), cpu="0") == 10


def test_a_cluster_without_a_summary_has_no_room() -> None:
    assert room(cluster()) == 0


def test_what_has_no_replicas_fits_everywhere() -> None:
    assert int(allocatable(ask(), fleet(cluster()))[0]) == UNLIMITED


def test_models_count_node_by_node_instead_of_in_sum() -> None:
    modelled = summed(pods="500", cpu="1", memory="1Gi", counts=(2, 3))
    assert room(modelled, cpu="1500m") == 3
    assert room(modelled, cpu="1", memory="4Gi") == 2 * 1 + 3 * 2
    assert room(modelled, **{"nvidia.com/gpu": "1"}) == 0


def test_room_that_was_given_away_is_gone() -> None:
    picture = fleet(summed(pods="10", cpu="4"))
    asked = ask(replicas=1, replicaRequirements={"resourceRequest": {"cpu": "1"}})
    taken = picture.reserve(np.array([0]), {"pods": 2, "cpu": 2500})
    assert allocatable(asked, taken).tolist() == [1]


SETS = [
    {"name": "one", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
    {"name": "two", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}},
]


@pytest.mark.parametrize(("pods", "cpu", "expected"), [("100", "9", 4), ("8", "9", 2), ("0", "9", 0)])
def test_components_are_counted_in_whole_sets(pods: str, cpu: str, expected: int) -> None:
    placement = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    asked = ask(gates=Gates(components=True), components=SETS, placement=placement)
    assert allocatable(asked, fleet(summed(pods=pods, cpu=cpu))).tolist() == [expected]


def test_room_given_away_is_taken_from_the_models_once_however_many_resources_it_needs() -> None:
    picture = fleet(summed(pods="500", cpu="1", memory="1Gi", counts=(2, 3)))
    asked = ask(replicas=1, replicaRequirements={"resourceRequest": {"cpu": "1", "memory": "4Gi"}})
    taken = picture.reserve(np.array([0]), {"pods": 2, "cpu": 2000, "memory": 8 << 30})
    assert allocatable(asked, picture).tolist() == [8]
    assert allocatable(asked, taken).tolist() == [6]
