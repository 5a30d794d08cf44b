from plugins.clusters import binding, check_filter, cluster, placement_request
from trimtab.decide.framework import filters
from trimtab.decide.request import FeatureGates
from trimtab.plugins import load

load()
GROUP = {"antiAffinityGroup": "app=db"}


def test_a_cluster_with_a_member_of_the_group_is_rejected() -> None:
    other = binding(workloadAffinityGroups=GROUP, clusters=[{"name": "m1"}])
    rival = other.but(metadata=other.metadata.but(name="a-deployment"))
    avoiding = placement_request(
        feature_gates=FeatureGates(workload_affinity=True), others=(rival,), workloadAffinityGroups=GROUP
    )
    reason = check_filter("WorkloadAntiAffinity", avoiding, cluster("m1"))
    assert reason is not None
    assert reason.message == "cluster already has workload with the same anti-affinity group"
    assert check_filter("WorkloadAntiAffinity", avoiding, cluster("m2")) is None


def test_clusters_in_use_are_not_checked() -> None:
    assert filters["WorkloadAntiAffinity"].skips_placed
