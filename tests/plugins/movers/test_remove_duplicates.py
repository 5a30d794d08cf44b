from pod_builders import pod

from plugins.movers.mover_runs import PAIR, evicted_by


def test_duplicates_are_evicted_down_to_the_average() -> None:
    pods = [pod(f"p{i}", on="a") for i in range(4)]
    assert evicted_by("RemoveDuplicates", PAIR, pods) == ["p2", "p3"]
