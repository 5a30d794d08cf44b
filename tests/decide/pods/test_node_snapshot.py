from pod_builders import HOSTNAME, node, pod, pod_affinity

from trimtab.decide.pods.node_snapshot import NodeSnapshot


def test_finished_pods_take_no_capacity() -> None:
    fleet = NodeSnapshot.of([node("a")], [pod("done", on="a", status={"phase": "Succeeded"})])
    node_info = fleet.get("a")
    assert node_info is not None
    assert node_info.pods == ()


def test_pod_may_arrive_before_its_node() -> None:
    fleet = NodeSnapshot.of([]).with_pod(pod("p", on="a", cpu="1")).with_node(node("a"))
    node_info = fleet.get("a")
    assert node_info is not None
    assert node_info.free_amount("cpu") == 3000


def test_node_that_comes_back_has_its_pods() -> None:
    fleet = NodeSnapshot.of([node("a")], [pod("p", on="a", cpu="1")]).without_node("a").with_node(node("a"))
    node_info = fleet.get("a")
    assert node_info is not None
    assert len(node_info.pods) == 1


def test_added_and_removed_pod_leaves_no_trace() -> None:
    lonely = pod("lonely", on="a", **pod_affinity(HOSTNAME, anti=True))
    after = NodeSnapshot.of([node("a")]).with_pod(lonely).with_pod(lonely).without_pod(lonely)
    node_info = after.get("a")
    assert node_info is not None
    assert (
        node_info.free_amount("cpu"),
        node_info.free_amount("pods"),
        node_info.assumed_cpu,
        after.affinity_term_counts,
    ) == (4000, 10, 0, {})


def test_finished_pod_frees_its_capacity() -> None:
    fleet = NodeSnapshot.of([node("a")], [pod("p", on="a", cpu="1")])
    fleet = fleet.with_pod(pod("p", on="a", cpu="1", status={"phase": "Failed"}))
    node_info = fleet.get("a")
    assert node_info is not None
    assert node_info.free_amount("cpu") == 4000
