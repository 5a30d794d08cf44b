from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from plugins.clusters import cluster, fleet, placement_request
from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.capacity import UNLIMITED, estimate_free_replicas
from trimtab.decide.request import ClassSelector, FeatureGates, QuotaRoom, QuotaUse

MODELS = [
    {"grade": 0, "ranges": [{"name": "cpu", "min": "1", "max": "2"}, {"name": "memory", "min": "4Gi", "max": "8Gi"}]},
    {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "4"}, {"name": "memory", "min": "8Gi", "max": "16Gi"}]},
]


def cluster_with_summary(*, allocated: Any = None, counts: tuple[int, ...] = (), **allocatable_: str) -> Cluster:
    counted = [{"grade": grade, "count": count} for grade, count in enumerate(counts)]
    summary = {"allocatable": allocatable_, "allocated": allocated or {}, "allocatableModelings": counted}
    return cluster(status={"resourceSummary": summary}, resourceModels=MODELS if counts else [])


def free_replicas(of: Cluster, replicas: int = 1, **request: str) -> int:
    asked = placement_request(replicas=replicas, replicaRequirements={"resourceRequest": request})
    return int(estimate_free_replicas(asked, fleet(of))[0])


def test_the_scarcest_resource_counts() -> None:
    assert free_replicas(cluster_with_summary(pods="100", cpu="4", memory="64Gi"), cpu="500m", memory="1Gi") == 8
    assert free_replicas(cluster_with_summary(pods="100", cpu="4", memory="2Gi"), cpu="500m", memory="1Gi") == 2
    assert free_replicas(cluster_with_summary(pods="3", cpu="4", memory="64Gi"), cpu="500m") == 3


def test_quotas_inside_a_cluster_limit_its_further_replicas() -> None:
    roomy = cluster_with_summary(pods="100", cpu="4")
    asked = placement_request(replicas=9, replicaRequirements={"resourceRequest": {"cpu": "500m"}})

    def free(*quotas: QuotaRoom, taken: int = 0) -> int:
        limited = msgspec.structs.replace(asked, quota_room=quotas, namespace="demo")
        targets = fleet(roomy)
        if taken:
            use = {
                QuotaUse("demo", "", "cpu"): taken,
                QuotaUse("other", "", "cpu"): 1000,
                QuotaUse("demo", "low", "cpu"): 500,
            }
            targets = targets.reserve(np.array([0]), use)
        return int(estimate_free_replicas(limited, targets)[0])

    room = QuotaRoom(roomy.name, (("cpu", Fraction(1700)),))
    assert free(room, QuotaRoom("elsewhere", (("cpu", Fraction(0)),))) == 3
    assert free(room, room._replace(free=(("pods", Fraction(2)), ("memory", Fraction(0))))) == 2
    assert free(room._replace(free=(("cpu", Fraction(15000)),))) == 8
    assert free(room, taken=100) == 2, "of the 1,700 milli-CPUs 600 are reserved in the namespace"
    assert free(room, taken=1200) == 0
    assert free(room._replace(selectors=(ClassSelector("DoesNotExist"),)), taken=100) == 3
    assert free(room._replace(selectors=(ClassSelector("In", ("low",)),))) == 8, "it limits other pods"


def test_sets_of_components_are_limited_by_quotas_and_reservations() -> None:
    parts = [
        {"name": name, "replicas": count, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}}
        for name, count, cpu in (("manager", 1, "50m"), ("worker", 2, "100m"))
    ]
    placement = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    asked = placement_request(placement=placement, components=parts)
    asked = msgspec.structs.replace(asked, feature_gates=FeatureGates(components=True), namespace="demo")
    roomy = cluster_with_summary(pods="100", cpu="2")
    assert asked.footprint() == {"pods": 3, "cpu": 250}
    assert int(estimate_free_replicas(asked, fleet(roomy))[0]) == 8
    reserved = fleet(roomy).reserve(np.array([0]), {"cpu": 300})
    assert int(estimate_free_replicas(asked, reserved)[0]) == 6
    limited = msgspec.structs.replace(asked, quota_room=(QuotaRoom(roomy.name, (("cpu", Fraction(1000)),)),))
    assert int(estimate_free_replicas(limited, fleet(roomy))[0]) == 4
    taken = fleet(roomy).reserve(np.array([0]), {QuotaUse("demo", "", "cpu"): 250})
    assert int(estimate_free_replicas(limited, taken)[0]) == 3


def test_allocated_resources_are_not_free() -> None:
    used = {"cpu": "3100m", "pods": "1"}
    assert free_replicas(cluster_with_summary(pods="100", cpu="4", allocated=used), cpu="300m") == 3


def test_a_resource_that_is_not_offered_has_no_capacity() -> None:
    assert free_replicas(cluster_with_summary(pods="10", cpu="4"), **{"nvidia.com/gpu": "1"}) == 0


def test_a_zero_request_is_ignored() -> None:
    assert free_replicas(cluster_with_summary(pods="10"), cpu="0") == 10


def test_a_cluster_without_a_summary_has_no_capacity() -> None:
    assert free_replicas(cluster()) == 0


def test_an_object_without_replicas_fits_everywhere() -> None:
    assert int(estimate_free_replicas(placement_request(), fleet(cluster()))[0]) == UNLIMITED


def test_resource_models_are_counted_per_node_instead_of_in_sum() -> None:
    modelled = cluster_with_summary(pods="500", cpu="1", memory="1Gi", counts=(2, 3))
    assert free_replicas(modelled, cpu="1500m") == 3
    assert free_replicas(modelled, cpu="1", memory="4Gi") == 2 * 1 + 3 * 2
    assert free_replicas(modelled, **{"nvidia.com/gpu": "1"}) == 0


def test_reserved_capacity_is_not_free() -> None:
    all_clusters = fleet(cluster_with_summary(pods="10", cpu="4"))
    request = placement_request(replicas=1, replicaRequirements={"resourceRequest": {"cpu": "1"}})
    taken = all_clusters.reserve(np.array([0]), {"pods": 2, "cpu": 2500})
    assert estimate_free_replicas(request, taken).tolist() == [1]


SETS = [
    {"name": "one", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
    {"name": "two", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "500m"}}},
]


@pytest.mark.parametrize(("pods", "cpu", "expected"), [("100", "9", 4), ("8", "9", 2), ("0", "9", 0)])
def test_components_are_counted_in_whole_sets(pods: str, cpu: str, expected: int) -> None:
    placement = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    request = placement_request(feature_gates=FeatureGates(components=True), components=SETS, placement=placement)
    assert estimate_free_replicas(request, fleet(cluster_with_summary(pods=pods, cpu=cpu))).tolist() == [expected]


def test_reservations_reduce_model_capacity_once_for_all_resources() -> None:
    all_clusters = fleet(cluster_with_summary(pods="500", cpu="1", memory="1Gi", counts=(2, 3)))
    request = placement_request(replicas=1, replicaRequirements={"resourceRequest": {"cpu": "1", "memory": "4Gi"}})
    taken = all_clusters.reserve(np.array([0]), {"pods": 2, "cpu": 2000, "memory": 8 << 30})
    assert estimate_free_replicas(request, all_clusters).tolist() == [8]
    assert estimate_free_replicas(request, taken).tolist() == [6]
