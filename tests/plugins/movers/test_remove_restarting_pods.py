from pod_builders import pod

from plugins.movers.mover_runs import PAIR, evicted_by


def test_pods_above_the_restart_threshold_are_evicted() -> None:
    status = {"containerStatuses": [{"name": "c", "restartCount": 7}]}
    found = evicted_by(
        "RemovePodsHavingTooManyRestarts", PAIR, [pod("p", on="a", status=status)], podRestartThreshold=7
    )
    assert found == ["p"]
