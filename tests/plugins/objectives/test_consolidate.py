from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import node, pod

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.rescheduling.history import History
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import Plan, plan
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import Facts, Picture

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
TRIO = [node("a"), node("b"), node("c")]


def here(name: str, on: str, cpu: str = "200m", **more: Any) -> Pod:
    more.setdefault("owner", f"ReplicaSet/{name[:3]}")
    return pod(name, on=on, cpu=cpu, memory="1Mi", status=WELL, metadata={"uid": name}, **more)


BUSY = [here("big-1", "b", "2"), here("fat-1", "c", "2")]


def look(pods: list[Pod], nodes: list[Node] | None = None, **more: Any) -> Plan:
    args = more.pop("args", {"low": {"cpu": 20.0}})
    wanted = {"preset": "aggressive", "objectives": [{"name": "Consolidate", "args": args}], **more}
    return plan(Picture(Facts(nodes or TRIO, pods), read_settings(wanted, KNOWN), History(), NOON))


def moved(found: Plan) -> list[tuple[str, str]]:
    return [(one.pod.name, one.source) for one in found.moves]


def reasons(found: Plan) -> dict[str, str]:
    return {one.pod.name: one.reason for one in found.refused}


def test_an_underutilised_node_is_emptied_at_the_pace_of_its_owners() -> None:
    found = look([*BUSY, here("web-1", "a"), here("web-2", "a"), here("job-1", "a")])
    assert moved(found) == [("job-1", "a"), ("web-1", "a")]
    assert reasons(found) == {"web-2": "1 of ReplicaSet/web are on their way"}


def test_a_node_with_a_protected_pod_is_not_emptied() -> None:
    held = here("web-2", "a", owner="")
    found = look([*BUSY, here("web-1", "a"), held])
    assert found.moves == ()
    assert reasons(found)["web-2"] == "nothing would replace it"


def test_a_node_whose_pods_do_not_all_fit_elsewhere_is_not_emptied() -> None:
    full = [here("big-1", "b", "2"), here("fat-1", "c", "2")]
    assert look([*full, *(here(f"we{n}-1", "a", "400m") for n in range(2))]).moves != ()
    assert (
        look(
            [*full, *(here(f"we{n}-1", "a", "200m") for n in range(4))],
            [node("a"), node("b", pods=2), node("c", pods=2)],
        ).moves
        == ()
    )


def test_no_pod_moves_from_an_underutilised_node_to_an_empty_one() -> None:
    """The scheduler would choose the empty node, and as many nodes would be in use as before."""
    assert look([*BUSY, here("web-1", "a")], [*TRIO, node("empty")]).moves == ()


def test_when_all_nodes_are_underutilised_the_least_used_is_emptied() -> None:
    pods = [here("big-1", "b"), here("big-2", "b"), here("fat-1", "c"), here("fat-2", "c"), here("web-1", "a")]
    assert moved(look(pods)) == [("web-1", "a")]


def test_daemon_pods_stay_and_do_not_count() -> None:
    agent = here("agt-1", "a", owner="DaemonSet/agent")
    assert moved(look([*BUSY, agent, here("web-1", "a")])) == [("web-1", "a")]
    assert look([*BUSY, agent]).moves == ()


def test_no_pod_moves_away_from_a_node_it_prefers() -> None:
    """The objective BetterAffinity would move it back."""
    wish = {"weight": 50, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    nodes = [node("a", labels={"disk": "fast"}), node("b"), node("c")]
    assert look([*BUSY, here("web-1", "a", affinity=affinity)], nodes).moves == ()
    assert moved(look([*BUSY, here("web-1", "a", affinity=affinity)])) == [("web-1", "a")]


def test_no_node_is_filled_above_the_limit_of_other_objectives() -> None:
    pods = [here("big-1", "b", "2500m"), here("fat-1", "c", "2500m"), here("web-1", "a", "400m")]
    assert look(pods).moves == ()
    assert moved(look(pods, args={"low": {"cpu": 20.0}, "high": {"cpu": 80.0}})) == [("web-1", "a")]
    both = [
        {"name": "Consolidate", "args": {"low": {"cpu": 20.0}, "high": {"cpu": 80.0}}},
        {"name": "UnderutilisedNodes", "args": {"high": {"cpu": 70}}},
    ]
    assert look(pods, objectives=both).moves == ()


def test_a_packing_scheduler_profile_is_used_also_without_avoid_lists() -> None:
    """It fills the fullest node that fits, and never an empty one; a spreading scheduler would move the pod back."""
    pods = [here("big-1", "b", "2"), here("fat-1", "c", "1"), here("web-1", "a")]
    nodes = [*TRIO, node("empty")]

    def plain(**more: Any) -> Plan:
        args = {"low": {"cpu": 20.0}}
        wanted = {"preset": "aggressive", "objectives": [{"name": "Consolidate", "args": args}], **more}
        return plan(Picture(Facts(nodes, pods, avoidance=False), read_settings(wanted, KNOWN), History(), NOON))

    assert plain().moves == ()
    assert [(one.source, one.expected) for one in plain(packing=True).moves] == [("a", "b")]
