from pod_builders import node, pod

from plugins.movers.mover_runs import evicted_by


def test_a_pod_that_does_not_tolerate_a_new_taint_is_evicted() -> None:
    nodes = [node("a", taints=["old=x:NoSchedule"]), node("b")]
    assert evicted_by("RemovePodsViolatingNodeTaints", nodes, [pod("p", on="a")]) == ["p"]
    assert evicted_by("RemovePodsViolatingNodeTaints", nodes, [pod("p", on="a")], excludedTaints=["old=x"]) == []
