from pod_builders import pod

from plugins.movers.mover_runs import FAILED, PAIR, moved


def test_failed_pods_are_removed() -> None:
    assert moved("RemoveFailedPods", PAIR, [pod("p", on="a", status=FAILED), pod("q", on="a")]) == ["p"]
