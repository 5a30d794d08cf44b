from pod_builders import node, pod

from trimtab.decide.pods.fit.resource_arrays import allocatable, free_pods, pod_counts, size, spare, unassumed, used
from trimtab.decide.pods.node_snapshot import NodeFleet

HOSTS = NodeFleet.of([node("a", cpu="2", pods=3), node("b", cpu="0")], [pod("p", on="a", cpu="500m")]).hosts


def test_arrays_have_one_amount_per_node() -> None:
    assert allocatable(HOSTS, "cpu").tolist() == [2000, 0]
    assert used(HOSTS, "cpu").tolist() == [500, 0]
    assert spare(HOSTS, "cpu").tolist() == [1500, 0]
    assert (free_pods(HOSTS).tolist(), pod_counts(HOSTS).tolist()) == ([2, 10], [1, 0])


def test_divisor_is_never_zero() -> None:
    assert size(HOSTS, "cpu").tolist() == [2000.0, 1.0]


def test_containers_without_requests_use_assumed_amounts_in_scoring() -> None:
    plain = pod("p", on="a", containers=[{"name": "c"}])
    hosts = NodeFleet.of([node("a", cpu="2")], [plain]).hosts
    assert unassumed(hosts, "cpu").tolist() == [1900.0]
    assert spare(hosts, "cpu").tolist() == [2000]
