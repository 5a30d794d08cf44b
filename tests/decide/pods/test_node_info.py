from pod_builders import node, pod

from trimtab.decide.pods.node_info import build_node_info, build_pod_info


def test_added_and_removed_pods_change_the_used_amounts() -> None:
    first, second = build_pod_info(pod("p", on="a", cpu="1")), build_pod_info(pod("q", on="a", cpu="500m"))
    full = build_node_info(node("a", cpu="2", pods=3), [first]).with_pod(second)
    assert (full.free_amount("cpu"), full.free_pods, full.free_amount("pods")) == (500, 1, 1)
    after = full.without_pods([first])
    assert (after.free_amount("cpu"), [one.name for one in after.pods]) == (1500, ["q"])
    assert len(full.pods) == 2
