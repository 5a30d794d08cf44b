from pod_builders import node, pod

from trimtab.decide.pods.node_info import host, resident


def test_added_and_removed_pods_change_the_used_amounts() -> None:
    first, second = resident(pod("p", on="a", cpu="1")), resident(pod("q", on="a", cpu="500m"))
    full = host(node("a", cpu="2", pods=3), [first]).joined(second)
    assert (full.free("cpu"), full.free_pods, full.free("pods")) == (500, 1, 1)
    after = full.left([first])
    assert (after.free("cpu"), [one.name for one in after.residents]) == (1500, ["q"])
    assert len(full.residents) == 2
