from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import explain


def test_a_used_host_port_rejects_the_node() -> None:
    fleet = NodeSnapshot.of([node("a")], [pod("holder", on="a", ports=(80,))])
    (opinion,) = explain(pod("p", ports=(80,)), fleet)
    assert opinion.rejection is not None
    assert "default/holder" in opinion.rejection.reason.message
    (opinion,) = explain(pod("p", ports=(81,)), fleet)
    assert opinion.rejection is None
