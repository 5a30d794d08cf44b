from pod_builders import pod

from plugins.movers.mover_runs import PAIR, evicted_by


def test_an_underutilised_node_is_emptied() -> None:
    pods = [pod("p", on="a", cpu="100m"), *(pod(f"q{i}", on="b", cpu="500m") for i in range(4))]
    assert evicted_by("HighNodeUtilization", PAIR, pods, thresholds={"cpu": 20}) == ["p"]
