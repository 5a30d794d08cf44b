from plugins.clusters import ask, binding, cluster, verdict
from trimtab.decide.request import Gates
from trimtab.plugins import load

load()
GROUP = {"affinityGroup": "app=shop"}
ON = Gates(workload_affinity=True)


def companion(name: str, *clusters: str) -> object:
    targets = [{"name": target} for target in clusters]
    other = binding(workloadAffinityGroups=GROUP, clusters=targets)
    return other.but(metadata=other.metadata.but(name=name))


def test_all_of_a_group_must_be_in_the_cluster() -> None:
    others = (companion("a-deployment", "m1", "m2"), companion("b-deployment", "m2"), companion("c-deployment"))
    joining = ask(gates=ON, others=others, workloadAffinityGroups=GROUP)
    assert verdict("WorkloadAffinity", joining, cluster("m2")) is None
    assert verdict("WorkloadAffinity", joining, cluster("m1")) is not None


def test_the_first_workload_of_a_group_may_go_anywhere() -> None:
    alone = ask(gates=ON, others=(companion("web-deployment", "m1"),), workloadAffinityGroups=GROUP)
    assert verdict("WorkloadAffinity", alone, cluster("m2")) is None


def test_the_gate_is_off_by_default() -> None:
    joining = ask(others=(companion("a-deployment", "m1"),), workloadAffinityGroups=GROUP)
    assert verdict("WorkloadAffinity", joining, cluster("m2")) is None
