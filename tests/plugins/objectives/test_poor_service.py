from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pod_builders import node, pod

from trimtab.api.kinds.native.apps import ReplicaSet
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import MoveRecord, ReschedulingHistory
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import NO_METRICS, ReschedulingPlan, plan_moves
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
SETTINGS = read_settings({"preset": "aggressive", "objectives": [{"name": "PoorService"}]}, KNOWN)
NODES = [node("a"), node("b"), node("c")]
SETS = [
    msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"default-ReplicaSet/{name}"},
            "spec": {"replicas": 3},
        },
        ReplicaSet,
    )
    for name in ("web", "greedy")
]


def failing_pod(
    name: str, on: str, restarts: int, *, at: datetime = NOON, why: str = "Error", owner: str = "web"
) -> Pod:
    end = {"terminated": {"exitCode": 1, "reason": why, "finishedAt": at - timedelta(minutes=1)}}
    status: dict[str, Any] = {
        "startTime": NOON - timedelta(days=30),
        "conditions": [{"type": "Ready", "status": "False" if restarts else "True"}],
        "containerStatuses": [{"name": "c", "restartCount": restarts, "lastState": end if restarts else {}}],
    }
    return pod(name, on=on, owner=f"ReplicaSet/{owner}", status=status, metadata={"uid": name})


def plan_for(
    pods: list[Pod], history: ReschedulingHistory | None = None, now: datetime = NOON, **more: Any
) -> ReschedulingPlan:
    nodes = more.pop("nodes", NODES)
    return plan_moves(
        ReschedulingSnapshot(
            ClusterObjects(nodes, pods, sets=SETS, **more), SETTINGS, history or ReschedulingHistory(), now
        )
    )


def metrics(cpu: int) -> UsageMetrics:
    """A node with this CPU usage, nearly all of it by one pod."""
    return UsageMetrics({"a": {"cpu": cpu}}, {("default", "g"): {"cpu": 3800}, ("default", "p0"): {"cpu": 100}})


def moves_of(found: ReschedulingPlan) -> list[str]:
    return [one.pod.name for one in found.moves]


def test_old_restarts_are_no_crash_loop() -> None:
    """Forty restarts in a month, the last one a minute ago: only those observed within half an hour count."""
    well = [failing_pod("p1", "b", 0), failing_pod("p2", "c", 0)]
    found = plan_for([failing_pod("p0", "a", 40), *well])
    assert moves_of(found) == []
    later = NOON + timedelta(minutes=20)
    found = plan_for([failing_pod("p0", "a", 43, at=later), *well], found.history, later)
    assert moves_of(found) == []
    later += timedelta(minutes=5)
    found = plan_for([failing_pod("p0", "a", 44, at=later), *well], found.history, later)
    assert moves_of(found) == ["p0"]
    assert found.moves[0].reason.startswith("it was restarted 5 times in 30 minutes on a")


def test_one_restart_in_ten_minutes_is_no_crash_loop() -> None:
    history, now, well = ReschedulingHistory(), NOON, [failing_pod("p1", "b", 0), failing_pod("p2", "c", 0)]
    for restarts in range(40, 52):
        found = plan_for([failing_pod("p0", "a", restarts, at=now), *well], history, now)
        assert moves_of(found) == []
        history, now = found.history, now + timedelta(minutes=10)


def test_a_crash_loop_counts_only_when_siblings_elsewhere_fail_far_less() -> None:
    now, history = NOON, ReschedulingHistory()
    for restarts in (10, 16):
        pods = [
            failing_pod("p0", "a", restarts, at=now),
            failing_pod("p1", "b", restarts - 3, at=now),
            failing_pod("p2", "c", 9, at=now),
        ]
        found = plan_for(pods, history, now)
        history, now = found.history, now + timedelta(minutes=10)
    assert moves_of(found) == []
    assert (
        moves_of(plan_for([failing_pod("p0", "a", 22, at=now)], history, now)) == []
    )  # without siblings the cause is unknown


def test_memory_kills_and_evictions_are_counted_by_owner_and_node() -> None:
    gone = {"phase": "Failed", "reason": "Evicted", "startTime": NOON - timedelta(minutes=30)}
    evicted = pod("p9", on="a", status=gone, metadata={"uid": "p9"})
    killed, well = failing_pod("p0", "a", 1, why="OOMKilled"), [failing_pod("p1", "b", 0), failing_pod("p2", "c", 0)]
    assert moves_of(plan_for([killed, *well])) == []
    assert moves_of(plan_for([killed, evicted, *well])) == ["p0"]
    other = failing_pod("p1", "b", 1, why="OOMKilled")
    assert moves_of(plan_for([killed, evicted, other])) == []  # the application lacks memory everywhere


def node_under_pressure(name: str, minutes: int) -> Node:
    since = NOON - timedelta(minutes=minutes)
    told = {"type": "CPUPressure", "status": "True", "lastTransitionTime": since.isoformat()}
    return node(name).but(
        status=msgspec.convert(
            {"allocatable": {"cpu": "4", "pods": 10}, "conditions": [told]}, type(node("x").status), strict=False
        )
    )


def test_under_cpu_pressure_the_pod_above_its_request_moves_unless_more_important() -> None:
    greedy, calm = failing_pod("g", "a", 0, owner="greedy"), failing_pod("p0", "a", 0)
    measures = metrics(4000)
    nodes = [node_under_pressure("a", 11), node("b"), node("c")]
    assert moves_of(plan_for([greedy, calm], nodes=nodes, measures=measures)) == ["g"]
    assert moves_of(plan_for([greedy, calm], nodes=[node_under_pressure("a", 9), *nodes[1:]], measures=measures)) == []
    important = greedy.but(spec=greedy.spec.but(priority=1000))
    assert moves_of(plan_for([important, calm], nodes=nodes, measures=measures)) == ["p0"]
    assert moves_of(plan_for([greedy], nodes=nodes, measures=measures)) == []  # it disturbs no other pod
    came = MoveRecord(
        owner="default-ReplicaSet/greedy", source="b", target="a", at=NOON - timedelta(minutes=20), outcome="Done"
    )
    assert moves_of(plan_for([greedy, calm], ReschedulingHistory(moves=(came,)), nodes=nodes, measures=measures)) == []


def test_pressure_is_inferred_from_usage_and_ignored_without_metrics() -> None:
    greedy, calm = failing_pod("g", "a", 0, owner="greedy"), failing_pod("p0", "a", 0)
    measures = metrics(3900)
    found = plan_for([greedy, calm], measures=measures)
    assert moves_of(found) == []
    later = plan_for([greedy, calm], found.history, NOON + timedelta(minutes=10), measures=measures)
    assert moves_of(later) == ["g"]
    assert later.notes == ()
    blind = plan_for([greedy, calm], nodes=[node_under_pressure("a", 60), node("b")])
    assert moves_of(blind) == []
    assert blind.notes == (NO_METRICS,)
