"""Which process serves a cluster."""

import pytest
from builders import cluster
from views import FakeView

from trimtab.controllers.clusters.served import OWNED_MEMBERS, PUSHES_ONLY, is_served, reports_only


@pytest.mark.parametrize(
    ("settings", "mode", "served"),
    [
        ({}, "Push", True),
        ({}, "Pull", False),
        ({"agent": "m1"}, "Pull", True),
        ({"agent": "m2"}, "Pull", False),
        ({OWNED_MEMBERS: frozenset()}, "Push", False),
        ({OWNED_MEMBERS: frozenset({"m1"})}, "Push", True),
        ({OWNED_MEMBERS: frozenset({"m1"})}, "Pull", False),
    ],
)
def test_cluster_is_served_by_its_owner_only(settings: dict, mode: str, served: bool) -> None:
    assert is_served(cluster("m1", sync_mode=mode), FakeView([], settings=settings)) is served


def test_agents_and_processes_that_only_push_report_only() -> None:
    assert reports_only(FakeView([], settings={"agent": "m1"}))
    assert reports_only(FakeView([], settings={PUSHES_ONLY: True}))
    assert not reports_only(FakeView([]))
