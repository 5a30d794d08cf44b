from plugins.clusters import check_filter, cluster, placement_request
from trimtab.plugins import load

load()


def test_a_cluster_with_an_eviction_in_progress_is_rejected() -> None:
    leaving = placement_request(gracefulEvictionTasks=[{"fromCluster": "m1", "producer": "somebody"}])
    reason = check_filter("ClusterEviction", leaving, cluster("m1"))
    assert reason is not None
    assert reason.message == "cluster(s) is in the process of eviction"
    assert check_filter("ClusterEviction", leaving, cluster("m2")) is None
