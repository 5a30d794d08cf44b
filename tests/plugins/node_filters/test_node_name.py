from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.schedule import explain


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    fleet = NodeFleet.of([node("a"), node("b")])
    refused = {opinion.node: opinion.objection for opinion in explain(pod("p", on="b"), fleet)}
    assert refused["b"] is None
    assert refused["a"] is not None
    assert refused["a"].plugin == "NodeName"
