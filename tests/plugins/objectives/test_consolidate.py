from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import node, pod

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import ReschedulingHistory
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import ReschedulingPlan, plan_moves
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
TRIO = [node("a"), node("b"), node("c")]


def pod_on(name: str, on: str, cpu: str = "200m", **more: Any) -> Pod:
    more.setdefault("owner", f"ReplicaSet/{name[:3]}")
    return pod(name, on=on, cpu=cpu, memory="1Mi", status=WELL, metadata={"uid": name}, **more)


BUSY = [pod_on("big-1", "b", "2"), pod_on("fat-1", "c", "2")]


def plan_for(pods: list[Pod], nodes: list[Node] | None = None, **more: Any) -> ReschedulingPlan:
    args = more.pop("args", {"low": {"cpu": 20.0}})
    wanted = {"preset": "aggressive", "objectives": [{"name": "Consolidate", "args": args}], **more}
    return plan_moves(
        ReschedulingSnapshot(
            ClusterObjects(nodes or TRIO, pods), read_settings(wanted, KNOWN), ReschedulingHistory(), NOON
        )
    )


def moves_of(found: ReschedulingPlan) -> list[tuple[str, str]]:
    return [(one.pod.name, one.source) for one in found.moves]


def reasons(found: ReschedulingPlan) -> dict[str, str]:
    return {one.pod.name: one.reason for one in found.rejected}


def test_an_underutilised_node_is_emptied_at_the_pace_of_its_owners() -> None:
    found = plan_for([*BUSY, pod_on("web-1", "a"), pod_on("web-2", "a"), pod_on("job-1", "a")])
    assert moves_of(found) == [("job-1", "a"), ("web-1", "a")]
    assert reasons(found) == {"web-2": "1 of ReplicaSet/web is being moved"}


def test_a_node_with_a_protected_pod_is_not_emptied() -> None:
    held = pod_on("web-2", "a", owner="")
    found = plan_for([*BUSY, pod_on("web-1", "a"), held])
    assert found.moves == ()
    assert reasons(found)["web-2"] == "no controller would replace it"


def test_a_node_whose_pods_do_not_all_fit_elsewhere_is_not_emptied() -> None:
    full = [pod_on("big-1", "b", "2"), pod_on("fat-1", "c", "2")]
    assert plan_for([*full, *(pod_on(f"we{n}-1", "a", "400m") for n in range(2))]).moves != ()
    assert (
        plan_for(
            [*full, *(pod_on(f"we{n}-1", "a", "200m") for n in range(4))],
            [node("a"), node("b", pods=2), node("c", pods=2)],
        ).moves
        == ()
    )


def test_no_pod_moves_from_an_underutilised_node_to_an_empty_one() -> None:
    """The scheduler would choose the empty node, and as many nodes would be in use as before."""
    assert plan_for([*BUSY, pod_on("web-1", "a")], [*TRIO, node("empty")]).moves == ()


def test_when_all_nodes_are_underutilised_the_least_used_is_emptied() -> None:
    pods = [
        pod_on("big-1", "b"),
        pod_on("big-2", "b"),
        pod_on("fat-1", "c"),
        pod_on("fat-2", "c"),
        pod_on("web-1", "a"),
    ]
    assert moves_of(plan_for(pods)) == [("web-1", "a")]


def test_daemon_pods_stay_and_do_not_count() -> None:
    agent = pod_on("agt-1", "a", owner="DaemonSet/agent")
    assert moves_of(plan_for([*BUSY, agent, pod_on("web-1", "a")])) == [("web-1", "a")]
    assert plan_for([*BUSY, agent]).moves == ()


def test_no_pod_moves_away_from_a_node_it_prefers() -> None:
    """The objective BetterAffinity would move it back."""
    preference = {"weight": 50, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    nodes = [node("a", labels={"disk": "fast"}), node("b"), node("c")]
    assert plan_for([*BUSY, pod_on("web-1", "a", affinity=affinity)], nodes).moves == ()
    assert moves_of(plan_for([*BUSY, pod_on("web-1", "a", affinity=affinity)])) == [("web-1", "a")]


def test_no_node_is_filled_above_the_limit_of_other_objectives() -> None:
    pods = [pod_on("big-1", "b", "2500m"), pod_on("fat-1", "c", "2500m"), pod_on("web-1", "a", "400m")]
    assert plan_for(pods).moves == ()
    assert moves_of(plan_for(pods, args={"low": {"cpu": 20.0}, "high": {"cpu": 80.0}})) == [("web-1", "a")]
    both = [
        {"name": "Consolidate", "args": {"low": {"cpu": 20.0}, "high": {"cpu": 80.0}}},
        {"name": "UnderutilisedNodes", "args": {"high": {"cpu": 70}}},
    ]
    assert plan_for(pods, objectives=both).moves == ()


def test_a_packing_scheduler_profile_is_used_also_without_avoid_lists() -> None:
    """It fills the fullest node that fits, and never an empty one; a spreading scheduler would move the pod back."""
    pods = [pod_on("big-1", "b", "2"), pod_on("fat-1", "c", "1"), pod_on("web-1", "a")]
    nodes = [*TRIO, node("empty")]

    def plain(**more: Any) -> ReschedulingPlan:
        args = {"low": {"cpu": 20.0}}
        wanted = {"preset": "aggressive", "objectives": [{"name": "Consolidate", "args": args}], **more}
        return plan_moves(
            ReschedulingSnapshot(
                ClusterObjects(nodes, pods, honours_avoid_lists=False),
                read_settings(wanted, KNOWN),
                ReschedulingHistory(),
                NOON,
            )
        )

    assert plain().moves == ()
    assert [(one.source, one.expected) for one in plain(packing=True).moves] == [("a", "b")]
