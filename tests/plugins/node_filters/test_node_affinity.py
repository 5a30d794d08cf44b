from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import schedule


def required(*terms: dict[str, object]) -> dict[str, object]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_a_node_selector_must_match() -> None:
    fleet = NodeSnapshot.of([node("a"), node("b", labels={"disk": "ssd"})])
    assert schedule(pod("p", nodeSelector={"disk": "ssd"}), fleet).node == "b"


def test_one_of_several_terms_is_enough() -> None:
    fleet = NodeSnapshot.of([node("a", labels={"gen": "1"}), node("b", labels={"gen": "4"})])
    newer = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    absent = {"matchExpressions": [{"key": "none", "operator": "Exists"}]}
    assert schedule(pod("p", affinity=required(absent, newer)), fleet).node == "b"


def test_a_node_can_be_required_by_name() -> None:
    fleet = NodeSnapshot.of([node("a"), node("b")])
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    assert schedule(pod("p", affinity=required(named)), fleet).node == "b"
