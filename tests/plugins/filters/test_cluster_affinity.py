import msgspec

from plugins.clusters import check_filter, cluster, placement_request
from trimtab.plugins import load

load()
ON_PREMISES = {"affinityName": "own", "labelSelector": {"matchLabels": {"where": "own"}}}
WITH_OVERFLOW = {**ON_PREMISES, "overflowAffinities": [{"affinityName": "cloud", "clusterNames": ["cloud1"]}]}


def test_without_an_affinity_every_cluster_is_allowed() -> None:
    assert check_filter("ClusterAffinity", placement_request(placement={}), cluster()) is None


def test_a_cluster_outside_the_affinity_is_rejected() -> None:
    named = placement_request(placement={"clusterAffinity": {"clusterNames": ["m2"]}})
    reason = check_filter("ClusterAffinity", named, cluster("m1"))
    assert reason is not None
    assert reason.message == "cluster(s) did not match the placement cluster affinity constraint"
    assert check_filter("ClusterAffinity", named, cluster("m2")) is None


def test_only_the_group_being_tried_counts() -> None:
    groups = placement_request(placement={"clusterAffinities": [ON_PREMISES, {"affinityName": "any"}]})
    first, second = (msgspec.structs.replace(groups, group=position) for position in (0, 1))
    assert check_filter("ClusterAffinity", first, cluster()) is not None
    assert check_filter("ClusterAffinity", second, cluster()) is None


def test_only_workloads_with_replicas_may_overflow() -> None:
    placement = {"clusterAffinities": [WITH_OVERFLOW]}
    workload = msgspec.structs.replace(placement_request(placement=placement, replicas=2), group=0)
    thing = msgspec.structs.replace(placement_request(placement=placement), group=0)
    assert check_filter("ClusterAffinity", workload, cluster("cloud1")) is None
    assert check_filter("ClusterAffinity", thing, cluster("cloud1")) is not None
