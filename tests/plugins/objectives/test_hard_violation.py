from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import HOSTNAME, ZONE, node, pod, pod_affinity, topology_spread

from trimtab.api.kinds.native.pod import Pod, PodSchedulingGate
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects, PodOwner
from trimtab.decide.rescheduling.history import ReschedulingHistory
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import ReschedulingPlan, plan_moves
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
ZONES = [node("a", zone="east"), node("b", zone="west"), node("c", zone="west")]


def pod_on(name: str, on: str, owner: str = "ReplicaSet/web", **spec: Any) -> Pod:
    return pod(name, on=on, owner=owner, status=WELL, metadata={"uid": name}, **spec)


def plan_for(pods: list[Pod], nodes: Any = None, **more: Any) -> ReschedulingPlan:
    wanted = {"preset": "aggressive", "ownerInFlight": "100%", "objectives": [{"name": "HardViolation"}], **more}
    owner = PodOwner("default-ReplicaSet/web", "ReplicaSet/web", 100, is_rolling_out=False)
    facts = ClusterObjects(nodes or ZONES, pods, other_owners=[owner])
    return plan_moves(ReschedulingSnapshot(facts, read_settings(wanted, KNOWN), ReschedulingHistory(), NOON))


def moves_of(found: ReschedulingPlan) -> list[str]:
    return [one.pod.name for one in found.moves]


def test_only_as_many_pods_leave_a_zone_as_the_constraint_requires() -> None:
    """All four violate it while all four are there; after two moves none does."""
    pods = [pod_on(f"web-{n}", "a", **topology_spread(ZONE)) for n in range(4)]
    assert moves_of(plan_for(pods)) == ["web-0", "web-1"]


def test_of_two_conflicting_pods_one_moves() -> None:
    pods = [pod_on(f"web-{n}", "a", **pod_affinity(HOSTNAME, anti=True)) for n in range(2)]
    found = plan_for(pods)
    assert moves_of(found) == ["web-0"]
    assert [one.reason for one in found.rejected] == ["it gains 0 %, less than 5 %"]


def test_only_pods_that_do_not_tolerate_the_taint_move() -> None:
    nodes = [node("a", taints=["bad=yes:NoSchedule"]), node("b")]
    hardy = pod_on("hardy", "a", tolerations=[{"operator": "Exists"}])
    assert moves_of(plan_for([pod_on("web-0", "a"), hardy], nodes)) == ["web-0"]


def test_a_violating_pod_does_not_take_the_capacity_of_a_pending_pod() -> None:
    nodes = [node("a", taints=["bad=yes:NoSchedule"]), node("b", cpu="2")]
    born = {"uid": "w", "creationTimestamp": NOON - timedelta(minutes=1)}
    waits = pod("waits", cpu="1500m", owner="ReplicaSet/other", metadata=born)
    mine = pod_on("web-0", "a", cpu="1")
    assert moves_of(plan_for([mine], nodes)) == ["web-0"]
    found = plan_for([mine, waits], nodes)
    assert found.moves == ()
    assert [one.reason for one in found.rejected] == ["default/waits has no node yet and could go to b"]
    gated = waits.but(spec=waits.spec.but(scheduling_gates=(PodSchedulingGate(name="later"),)))
    assert moves_of(plan_for([mine, gated], nodes)) == ["web-0"]  # it has a scheduling gate
