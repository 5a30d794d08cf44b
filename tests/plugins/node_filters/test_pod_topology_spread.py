from pod_builders import ZONE, node, pod, topology_spread

from trimtab.decide.pods.node_rejection import UNRESOLVABLE
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import explain, schedule


def nodes() -> list[object]:
    return [node("a", zone="east"), node("b", zone="west"), node("c")]


def test_a_domain_above_max_skew_is_rejected() -> None:
    fleet = NodeSnapshot.of([node("a", zone="east"), node("b", zone="west")], [pod("one", on="a")])
    assert schedule(pod("p", **topology_spread(ZONE)), fleet).node == "b"


def test_a_node_without_the_label_is_unresolvable() -> None:
    (opinion,) = explain(pod("p", **topology_spread(ZONE)), NodeSnapshot.of([node("c")]))
    assert opinion.rejection is not None
    assert opinion.rejection.reason.code == UNRESOLVABLE


def test_too_few_domains_count_as_an_empty_one() -> None:
    fleet = NodeSnapshot.of([node("a", zone="east")], [pod("one", on="a")])
    assert schedule(pod("p", **topology_spread(ZONE)), fleet).node == "a"
    assert schedule(pod("p", **topology_spread(ZONE, minDomains=2)), fleet).node is None


def test_terminating_pods_do_not_count() -> None:
    leaving = pod("one", on="a", metadata={"deletionTimestamp": "2026-08-01T00:00:00Z"})
    fleet = NodeSnapshot.of([node("a", zone="east"), node("b", zone="west")], [leaving, pod("two", on="b")])
    assert schedule(pod("p", **topology_spread(ZONE)), fleet).node == "a"
