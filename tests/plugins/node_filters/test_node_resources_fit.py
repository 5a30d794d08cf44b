from pod_builders import node, pod

from trimtab.decide.framework import Reason, node_filters
from trimtab.decide.pods.node_rejection import UNRESOLVABLE, UNSCHEDULABLE
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import explain


def rejection(cpu: str, *running: str) -> Reason | None:
    pods = [pod(f"r{i}", on="a", cpu=amount) for i, amount in enumerate(running)]
    (opinion,) = explain(pod("p", cpu=cpu), NodeSnapshot.of([node("a", cpu="4", pods=3)], pods))
    return opinion.rejection.reason if opinion.rejection else None


def test_a_shortage_caused_by_other_pods_is_resolvable() -> None:
    reason = rejection("2", "1500m", "1")
    assert reason is not None
    assert reason.code == UNSCHEDULABLE
    assert reason.message == "Insufficient cpu - requests 2000m, 1500m of 4000m is free"


def test_a_request_larger_than_the_node_is_unresolvable() -> None:
    reason = rejection("5")
    assert reason is not None
    assert reason.code == UNRESOLVABLE


def test_a_request_that_takes_all_that_is_free_fits_in_both_forms() -> None:
    fleet = NodeSnapshot.of([node("a", cpu="4")], [pod("r", on="a", cpu="1")])
    for cpu, fits in (("3", True), ("3001m", False)):
        request = pod_request_for(pod("p", cpu=cpu), fleet)
        plugin = node_filters["NodeResourcesFit"]
        (target,) = fleet.nodes
        assert (plugin.prepare(request, fleet.nodes)(target) is None) is fits
        assert plugin.array is not None
        assert plugin.array(request, fleet.nodes).tolist() == [fits]


def test_the_number_of_pods_is_limited() -> None:
    assert rejection("1m", "1m", "1m") is None
    assert rejection("1m", "1m", "1m", "1m") is not None
