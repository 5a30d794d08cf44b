from pod_builders import node, pod

from trimtab.decide.pods.fit.resource_arrays import (
    allocatable_array,
    free_array,
    free_pods_array,
    pod_counts,
    size_array,
    unassumed_array,
    used_array,
)
from trimtab.decide.pods.node_snapshot import NodeSnapshot

HOSTS = NodeSnapshot.of([node("a", cpu="2", pods=3), node("b", cpu="0")], [pod("p", on="a", cpu="500m")]).nodes


def test_arrays_have_one_amount_per_node() -> None:
    assert allocatable_array(HOSTS, "cpu").tolist() == [2000, 0]
    assert used_array(HOSTS, "cpu").tolist() == [500, 0]
    assert free_array(HOSTS, "cpu").tolist() == [1500, 0]
    assert (free_pods_array(HOSTS).tolist(), pod_counts(HOSTS).tolist()) == ([2, 10], [1, 0])


def test_divisor_is_never_zero() -> None:
    assert size_array(HOSTS, "cpu").tolist() == [2000.0, 1.0]


def test_containers_without_requests_use_assumed_amounts_in_scoring() -> None:
    plain = pod("p", on="a", containers=[{"name": "c"}])
    hosts = NodeSnapshot.of([node("a", cpu="2")], [plain]).nodes
    assert unassumed_array(hosts, "cpu").tolist() == [1900.0]
    assert free_array(hosts, "cpu").tolist() == [2000]
