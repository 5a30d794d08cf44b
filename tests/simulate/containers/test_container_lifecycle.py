import random
from datetime import UTC, datetime, timedelta

from trimtab.simulate.containers.container_lifecycle import TIME_TOLERANCE_SECONDS, ContainerLifecycle
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.programs import ContainerContext
from trimtab.simulate.kubelets.behaviour import Behaviour


def test_probe_is_checked_again_after_a_timer_that_fired_a_little_too_early() -> None:
    container = {"name": "web", "image": "nginx", "readinessProbe": {"httpGet": {"path": "/"}, "periodSeconds": 1}}
    files = Files()
    lifecycle = ContainerLifecycle(
        container,
        "Always",
        Behaviour(start=0.0, ready=0.0, stop=0.0, run=None),
        lambda at: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at),
        lambda _: ContainerContext({}, files, random.Random(1)),
    )
    lifecycle.schedule(0.0)
    at = lifecycle.advance(0.0)
    assert at == 1.0
    assert lifecycle.is_ready(0.0)
    early = at - TIME_TOLERANCE_SECONDS / 2
    again = lifecycle.advance(early)
    assert again is not None
    files.remove("/usr/share/nginx/html/index.html")
    for _ in range(3):
        again = lifecycle.advance(again)
    assert not lifecycle.is_ready(again)


def test_new_image_starts_without_the_back_off_of_the_old_one() -> None:
    container = {"name": "c", "image": "busybox:1", "command": ["sh", "-c", "sleep 1; exit 1"]}
    lifecycle = ContainerLifecycle(
        container,
        "Always",
        Behaviour(start=0.0, ready=0.0, stop=0.0, run=None),
        lambda at: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at),
        lambda _: ContainerContext({}, Files(), random.Random(1)),
    )
    lifecycle.schedule(0.0)
    lifecycle.advance(200.0)
    assert lifecycle.backoff_seconds() > 40
    lifecycle.change_image({**container, "image": "busybox:2"}, 200.0)
    lifecycle.advance(201.5)
    assert lifecycle.backoff_seconds() == 10
