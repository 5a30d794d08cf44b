from pod_builders import pod

from plugins.movers.mover_runs import PAIR, moved


def test_duplicates_are_evicted_down_to_the_average() -> None:
    pods = [pod(f"p{i}", on="a") for i in range(4)]
    assert moved("RemoveDuplicates", PAIR, pods) == ["p2", "p3"]
