from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pod_builders import node, pod

from trimtab import plugins
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import ReschedulingHistory
from trimtab.decide.rescheduling.objectives import MoveCandidate, objectives
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot
from trimtab.plugins.objectives.underutilised_nodes import (
    UnderutilisedNodesArgs,
    underutilised_nodes,
    utilisation_state,
)

plugins.load()
NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
NODES = [node("a", cpu="4"), node("b", cpu="4")]


def snapshot_of(count: int, **more: Any) -> ReschedulingSnapshot:
    pods = [pod(f"p{n}", on="a", cpu="900m", status=WELL, metadata={"uid": f"u{n}"}, **more) for n in range(count)]
    settings = read_settings({"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}]}, KNOWN)
    return ReschedulingSnapshot(ClusterObjects(NODES, pods), settings, ReschedulingHistory(), NOON)


def candidates(count: int, args: UnderutilisedNodesArgs, **more: Any) -> list[MoveCandidate]:
    return list(underutilised_nodes(args, snapshot_of(count, **more)))


def test_pods_of_a_node_above_the_limit_are_candidates() -> None:
    found = candidates(4, UnderutilisedNodesArgs())
    assert found
    assert all(one.gain > 0 for one in found)
    assert found[0].reason == "90 % of the cpu of a is requested, more than 70 %"


def test_a_node_below_the_limit_has_no_candidates() -> None:
    assert candidates(3, UnderutilisedNodesArgs()) == []


def test_without_an_underutilised_node_nothing_moves() -> None:
    assert candidates(4, UnderutilisedNodesArgs(low={"pods": -1.0})) == []


def test_daemon_pods_are_no_candidates() -> None:
    assert candidates(4, UnderutilisedNodesArgs(), owner="DaemonSet/d") == []


@pytest.mark.parametrize(("count", "expected"), [(4, "crowded"), (2, ""), (0, "idle")])
def test_the_state_of_a_node_follows_its_requests(count: int, expected: str) -> None:
    node_info = snapshot_of(count).fleet.get("a")
    assert node_info is not None
    assert utilisation_state(node_info, UnderutilisedNodesArgs()) == expected
