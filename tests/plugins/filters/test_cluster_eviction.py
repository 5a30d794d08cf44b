from plugins.clusters import ask, cluster, verdict
from trimtab.plugins import load

load()


def test_a_cluster_with_an_eviction_in_progress_is_rejected() -> None:
    leaving = ask(gracefulEvictionTasks=[{"fromCluster": "m1", "producer": "somebody"}])
    reason = verdict("ClusterEviction", leaving, cluster("m1"))
    assert reason is not None
    assert reason.message == "cluster(s) is in the process of eviction"
    assert verdict("ClusterEviction", leaving, cluster("m2")) is None
