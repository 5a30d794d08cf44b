from datetime import timedelta
from typing import Any

from pod_builders import pod

from plugins.movers.mover_runs import NOON, PAIR, moved


def born(hours: float) -> dict[str, Any]:
    return {"creationTimestamp": NOON - timedelta(hours=hours)}


def test_the_oldest_pod_is_evicted_first() -> None:
    pods = [
        pod("young", on="a", metadata=born(1)),
        pod("mid", on="a", metadata=born(5)),
        pod("old", on="b", metadata=born(9)),
    ]
    assert moved("PodLifeTime", PAIR, pods, maxPodLifeTimeSeconds=7200) == ["old", "mid"]
