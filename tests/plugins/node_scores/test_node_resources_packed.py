from pod_builders import node, pod

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import SchedulerProfile, schedule


def test_most_allocated_prefers_the_fuller_node() -> None:
    fleet = NodeSnapshot.of([node("a"), node("b")], [pod("r", on="b", cpu="1")])
    packing = SchedulerProfile(scores=(("NodeResourcesMostAllocated", 1),))
    assert schedule(pod("p"), fleet, packing).node == "b"
    assert schedule(pod("p"), fleet).node == "a"
