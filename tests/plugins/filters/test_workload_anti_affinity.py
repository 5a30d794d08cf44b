from plugins.clusters import ask, binding, cluster, verdict
from trimtab.decide.framework import filters
from trimtab.decide.request import Gates
from trimtab.plugins import load

load()
GROUP = {"antiAffinityGroup": "app=db"}


def test_a_cluster_with_a_member_of_the_group_is_rejected() -> None:
    other = binding(workloadAffinityGroups=GROUP, clusters=[{"name": "m1"}])
    rival = other.but(metadata=other.metadata.but(name="a-deployment"))
    avoiding = ask(gates=Gates(workload_affinity=True), others=(rival,), workloadAffinityGroups=GROUP)
    reason = verdict("WorkloadAntiAffinity", avoiding, cluster("m1"))
    assert reason is not None
    assert reason.message == "cluster already has workload with the same anti-affinity group"
    assert verdict("WorkloadAntiAffinity", avoiding, cluster("m2")) is None


def test_clusters_in_use_are_not_checked() -> None:
    assert filters["WorkloadAntiAffinity"].spares_placed
