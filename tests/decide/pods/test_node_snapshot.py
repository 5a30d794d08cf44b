from pod_builders import HOSTNAME, near, node, pod

from trimtab.decide.pods.node_snapshot import NodeFleet


def test_finished_pods_take_no_room() -> None:
    fleet = NodeFleet.of([node("a")], [pod("done", on="a", status={"phase": "Succeeded"})])
    here = fleet.get("a")
    assert here is not None
    assert here.residents == ()


def test_a_pod_may_come_before_its_node() -> None:
    fleet = NodeFleet.of([]).with_pod(pod("p", on="a", cpu="1")).with_node(node("a"))
    here = fleet.get("a")
    assert here is not None
    assert here.free("cpu") == 3000


def test_a_node_that_comes_back_has_its_pods() -> None:
    fleet = NodeFleet.of([node("a")], [pod("p", on="a", cpu="1")]).without_node("a").with_node(node("a"))
    here = fleet.get("a")
    assert here is not None
    assert len(here.residents) == 1


def test_what_comes_and_goes_leaves_no_trace() -> None:
    shy = pod("shy", on="a", **near(HOSTNAME, repels=True))
    after = NodeFleet.of([node("a")]).with_pod(shy).with_pod(shy).without_pod(shy)
    here = after.get("a")
    assert here is not None
    assert (here.free("cpu"), here.free("pods"), here.assumed_cpu, after.carried) == (4000, 10, 0, {})


def test_a_pod_that_ends_frees_its_room() -> None:
    fleet = NodeFleet.of([node("a")], [pod("p", on="a", cpu="1")])
    fleet = fleet.with_pod(pod("p", on="a", cpu="1", status={"phase": "Failed"}))
    here = fleet.get("a")
    assert here is not None
    assert here.free("cpu") == 4000
