from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import explain


def test_a_pod_with_node_name_runs_only_there() -> None:
    fleet = NodeSnapshot.of([node("a"), node("b")])
    refused = {opinion.node: opinion.rejection for opinion in explain(pod("p", on="b"), fleet)}
    assert refused["b"] is None
    assert refused["a"] is not None
    assert refused["a"].plugin == "NodeName"
