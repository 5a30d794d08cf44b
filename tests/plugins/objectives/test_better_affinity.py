from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import node, pod

from trimtab.api.kinds.native.node import Node
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import ReschedulingHistory
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import ReschedulingPlan, plan_moves
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}


def prefers(label: str, weight: int = 100) -> dict[str, Any]:
    preference = {"weight": weight, "preference": {"matchExpressions": [{"key": label, "operator": "Exists"}]}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}}


def plan_for(nodes: list[Node], **more: Any) -> ReschedulingPlan:
    here = pod("web-0", on="a", status=WELL, metadata={"uid": "u"}, **prefers("ssd"))
    wanted = {"preset": "aggressive", "objectives": [{"name": "BetterAffinity"}], **more}
    return plan_moves(
        ReschedulingSnapshot(ClusterObjects(nodes, [here]), read_settings(wanted, KNOWN), ReschedulingHistory(), NOON)
    )


def test_a_pod_moves_to_a_node_it_prefers() -> None:
    found = plan_for([node("a"), node("b", labels={"ssd": "yes"})])
    assert [(one.expected, one.gain) for one in found.moves] == [("b", 100.0)]
    assert found.moves[0].reason == "b satisfies more of its preferences (NodeAffinity)"


def test_a_preference_is_not_met_at_the_cost_of_a_heavier_one() -> None:
    """The preferred node has a soft taint: affinity gains less than the taint costs."""
    wary = node("b", labels={"ssd": "yes"}, taints=["slow=yes:PreferNoSchedule"])
    roomy = node("a", cpu="1")
    assert plan_for([roomy, wary]).moves == ()


def test_a_preference_against_the_scheduler_total_moves_no_pod() -> None:
    """The other node matches a little more of its preferences, and is nearly full."""
    preferences = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for key, weight in (("ssd", 60), ("gpu", 100))
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}}
    here = pod("web-0", on="a", status=WELL, metadata={"uid": "u"}, affinity=affinity)
    full = [pod(f"f{n}", on="b", cpu="900m", memory="1800Mi", owner="ReplicaSet/f") for n in range(4)]
    wanted = read_settings({"preset": "aggressive", "objectives": [{"name": "BetterAffinity"}]}, KNOWN)
    nodes = [node("a", labels={"ssd": "yes"}), node("b", labels={"gpu": "yes"})]
    assert (
        plan_moves(ReschedulingSnapshot(ClusterObjects(nodes, [here]), wanted, ReschedulingHistory(), NOON)).moves != ()
    )
    assert (
        plan_moves(
            ReschedulingSnapshot(ClusterObjects(nodes, [here, *full]), wanted, ReschedulingHistory(), NOON)
        ).moves
        == ()
    )
