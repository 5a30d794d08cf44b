"""Readings of the pods of a workload in its clusters."""

from datetime import timedelta

from builders import NOON, deployment
from views import FakeView

from trimtab.controllers.autoscaling.pod_use import POD_USE, SYNC_SECONDS, PodReading, pod_use_of
from trimtab.controllers.contract import ReadPodUse
from trimtab.decide.autoscale import PodSample

READING = ReadPodUse("m1", "demo", "app=web")


def test_what_was_never_read_is_due() -> None:
    found = pod_use_of(deployment(), ["m1"], FakeView())
    assert found == ((), (READING,))


def test_a_reading_is_due_again_after_a_period_and_used_meanwhile() -> None:
    view = FakeView()
    view.memory[POD_USE, READING] = PodReading(NOON, (PodSample("web-1", {}, None),))
    known = pod_use_of(deployment(), ["m1", "m2"], view)
    assert [pod.name for pod in known.pods] == ["m1/web-1"]
    assert [reading.cluster for reading in known.due] == ["m2"]
    view.steady_now = NOON + timedelta(seconds=SYNC_SECONDS)
    assert READING in pod_use_of(deployment(), ["m1"], view).due


def test_pods_of_the_same_name_in_two_clusters_are_two_pods() -> None:
    view = FakeView()
    for name in ("m1", "m2"):
        view.memory[POD_USE, READING._replace(cluster=name)] = PodReading(NOON, (PodSample("web-0", {}, None),))
    assert len({pod.name for pod in pod_use_of(deployment(), ["m1", "m2"], view).pods}) == 2
