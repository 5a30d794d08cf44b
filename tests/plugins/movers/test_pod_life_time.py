from datetime import timedelta
from typing import Any

from pod_builders import pod

from plugins.movers.mover_runs import NOON, PAIR, evicted_by


def created_hours_ago(hours: float) -> dict[str, Any]:
    return {"creationTimestamp": NOON - timedelta(hours=hours)}


def test_the_oldest_pod_is_evicted_first() -> None:
    pods = [
        pod("young", on="a", metadata=created_hours_ago(1)),
        pod("mid", on="a", metadata=created_hours_ago(5)),
        pod("old", on="b", metadata=created_hours_ago(9)),
    ]
    assert evicted_by("PodLifeTime", PAIR, pods, maxPodLifeTimeSeconds=7200) == ["old", "mid"]
