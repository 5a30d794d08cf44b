from pod_builders import HOSTNAME, near, node, pod

from trimtab.decide.pods.node_snapshot import NodeFleet


def test_finished_pods_take_no_capacity() -> None:
    fleet = NodeFleet.of([node("a")], [pod("done", on="a", status={"phase": "Succeeded"})])
    node_info = fleet.get("a")
    assert node_info is not None
    assert node_info.residents == ()


def test_pod_may_arrive_before_its_node() -> None:
    fleet = NodeFleet.of([]).with_pod(pod("p", on="a", cpu="1")).with_node(node("a"))
    node_info = fleet.get("a")
    assert node_info is not None
    assert node_info.free("cpu") == 3000


def test_node_that_comes_back_has_its_pods() -> None:
    fleet = NodeFleet.of([node("a")], [pod("p", on="a", cpu="1")]).without_node("a").with_node(node("a"))
    node_info = fleet.get("a")
    assert node_info is not None
    assert len(node_info.residents) == 1


def test_added_and_removed_pod_leaves_no_trace() -> None:
    lonely = pod("lonely", on="a", **near(HOSTNAME, repels=True))
    after = NodeFleet.of([node("a")]).with_pod(lonely).with_pod(lonely).without_pod(lonely)
    node_info = after.get("a")
    assert node_info is not None
    assert (node_info.free("cpu"), node_info.free("pods"), node_info.assumed_cpu, after.carried) == (4000, 10, 0, {})


def test_finished_pod_frees_its_capacity() -> None:
    fleet = NodeFleet.of([node("a")], [pod("p", on="a", cpu="1")])
    fleet = fleet.with_pod(pod("p", on="a", cpu="1", status={"phase": "Failed"}))
    node_info = fleet.get("a")
    assert node_info is not None
    assert node_info.free("cpu") == 4000
