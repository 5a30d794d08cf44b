from pod_builders import pod

from plugins.movers.mover_runs import FAILED, PAIR, evicted_by


def test_failed_pods_are_removed() -> None:
    assert evicted_by("RemoveFailedPods", PAIR, [pod("p", on="a", status=FAILED), pod("q", on="a")]) == ["p"]
