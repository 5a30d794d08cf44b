from plugins.clusters import binding, check_filter, cluster, placement_request
from trimtab.decide.request import FeatureGates
from trimtab.plugins import load

load()
GROUP = {"affinityGroup": "app=shop"}
ON = FeatureGates(workload_affinity=True)


def group_member(name: str, *clusters: str) -> object:
    targets = [{"name": target} for target in clusters]
    other = binding(workloadAffinityGroups=GROUP, clusters=targets)
    return other.but(metadata=other.metadata.but(name=name))


def test_all_of_a_group_must_be_in_the_cluster() -> None:
    others = (
        group_member("a-deployment", "m1", "m2"),
        group_member("b-deployment", "m2"),
        group_member("c-deployment"),
    )
    joining = placement_request(feature_gates=ON, others=others, workloadAffinityGroups=GROUP)
    assert check_filter("WorkloadAffinity", joining, cluster("m2")) is None
    assert check_filter("WorkloadAffinity", joining, cluster("m1")) is not None


def test_the_first_workload_of_a_group_may_go_anywhere() -> None:
    alone = placement_request(
        feature_gates=ON, others=(group_member("web-deployment", "m1"),), workloadAffinityGroups=GROUP
    )
    assert check_filter("WorkloadAffinity", alone, cluster("m2")) is None


def test_the_gate_is_off_by_default() -> None:
    joining = placement_request(others=(group_member("a-deployment", "m1"),), workloadAffinityGroups=GROUP)
    assert check_filter("WorkloadAffinity", joining, cluster("m2")) is None
