"""The load of the last hour, minute by minute."""

from datetime import timedelta

from builders import cluster

from console.fake_console import NOW
from trimtab.api.kinds.cluster import Cluster, ResourceSummary
from trimtab.console.load_history import LoadHistory
from trimtab.console.pictures.charts import draw_trend


def loaded(cpu: int) -> Cluster:
    found = cluster("m1")
    summary = ResourceSummary(allocatable={"cpu": "10"}, allocated={"cpu": str(cpu)})
    return found.but(status=found.status.but(resource_summary=summary))


def test_a_minute_without_a_change_keeps_the_value_before() -> None:
    now = NOW
    history = LoadHistory(lambda: now)
    history.add(loaded(1))
    now += timedelta(minutes=3)
    history.add(loaded(5))
    history.add(loaded(6))
    assert history.loads("m1")[-4:] == [0.1, 0.1, 0.1, 0.6]
    assert history.loads("m1")[0] is None
    assert history.loads("unknown") == [None] * 60


def test_only_one_hour_is_kept() -> None:
    now = NOW
    history = LoadHistory(lambda: now)
    for number in range(200):
        history.add(loaded(number % 10))
        now += timedelta(minutes=1)
    assert len(history._samples["m1"]) <= 61
    assert len(history.loads("m1")) == 60
    assert None not in history.loads("m1")


def test_trend_says_its_range_and_is_absent_without_values() -> None:
    assert draw_trend([None] * 60) == ""
    drawn = draw_trend([None] * 58 + [0.25, 0.5])
    assert "25% to 50%, now 50%" in drawn
