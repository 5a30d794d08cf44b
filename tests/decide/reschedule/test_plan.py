from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from pod_builders import node, pod
from trimtab import plugins
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.decide.reschedule.history import BACK, DONE, History, Moved
from trimtab.decide.reschedule.objectives import objectives
from trimtab.decide.reschedule.picture import Facts, Picture
from trimtab.decide.reschedule.plan import Plan, plan
from trimtab.decide.reschedule.settings import read_settings

plugins.load()
NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
NODES = [node("a", cpu="4"), node("b", cpu="4"), node("c", cpu="4")]
SET = "default-ReplicaSet/web"


def crowd(count: int = 4, **more: Any) -> list[Any]:
    return [pod(f"web-{n}", on="a", cpu="900m", status=WELL, metadata={"uid": f"u{n}"}, **more) for n in range(count)]


def owners(replicas: int = 4, **status: Any) -> tuple[list[Deployment], list[ReplicaSet]]:
    ref = {"kind": "Deployment", "name": "web", "uid": "top", "controller": True}
    top = {
        "metadata": {"name": "web", "namespace": "default", "uid": "top", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "updatedReplicas": replicas, **status},
    }
    below = {
        "metadata": {"name": "web", "namespace": "default", "uid": SET, "ownerReferences": [ref]},
        "spec": {"replicas": replicas},
    }
    return [msgspec.convert(top, Deployment)], [msgspec.convert(below, ReplicaSet)]


def budget(allowed: int) -> PodDisruptionBudget:
    raw = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 4, "desiredHealthy": 4 - allowed},
    }
    return msgspec.convert(raw, PodDisruptionBudget)


def planned(pods: list[Any], history: History | None = None, *, budgets: Any = (), top: Any = None, **raw: Any) -> Plan:
    deployments, sets = top or owners()
    given = {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}], **raw}
    facts = Facts(NODES, pods, deployments, sets, budgets)
    return plan(Picture(facts, read_settings(given, KNOWN), history or History(), NOON))


def reasons(found: Plan) -> set[str]:
    return {one.reason for one in found.refused}


def test_one_pod_of_an_owner_moves_at_a_time() -> None:
    found = planned(crowd())
    assert [(move.source, move.expected) for move in found.moves] == [("a", "b")]
    assert "1 of Deployment/web are on their way" in reasons(found)


def test_a_move_is_confirmed_in_as_many_rounds_as_asked() -> None:
    found = planned(crowd(), confirmations=2)
    assert not found.moves
    assert reasons(found) == {"it has been worth it for 1 of 2 rounds"}
    assert planned(crowd(), found.history, confirmations=2).moves


def test_a_budget_that_must_keep_a_rest_keeps_it() -> None:
    assert not planned(crowd(), budgets=[budget(1)], headRoom=1).moves
    assert planned(crowd(), budgets=[budget(2)], headRoom=1).moves


def test_an_owner_in_a_rollout_is_left_alone() -> None:
    found = planned(crowd(), top=owners(updated=0, updatedReplicas=1))
    assert reasons(found) == {"Deployment/web is being rolled out"}


def test_what_nothing_would_replace_or_is_young_stays() -> None:
    young = {**WELL, "startTime": NOON - timedelta(seconds=30)}
    fresh = [one.but(status=msgspec.convert(young, type(one.status))) for one in crowd()]
    assert reasons(planned(fresh)) == {"it is younger than 2m"}
    assert planned(crowd(owner="")).moves == ()


def test_a_move_in_vain_makes_the_next_one_wait_and_three_freeze_the_owner() -> None:
    def wasted(minutes: int) -> Moved:
        return Moved(owner="top", source="a", target="a", at=NOON - timedelta(minutes=minutes), outcome=BACK)

    one = planned(crowd(), History(moves=(wasted(5),)))
    assert reasons(one) == {"Deployment/web was moved in vain and is left alone until 12:05:00"}
    assert planned(crowd(), History(moves=(wasted(15),))).moves
    three = planned(crowd(), History(moves=(wasted(900), wasted(800), wasted(700))))
    assert reasons(three) == {"Deployment/web was moved in vain three times in a row"}


def test_nobody_is_sent_back_where_a_sibling_came_from_without_twice_the_gain() -> None:
    came = Moved(owner="top", source="b", target="a", at=NOON - timedelta(minutes=30), outcome=DONE)
    assert any(
        "came from b less than an hour ago" in one
        for one in reasons(planned(crowd(), History(moves=(came,)), gainThreshold=30))
    )
    assert planned(crowd(), History(moves=(came,)), gainThreshold=5).moves


def test_what_became_of_a_move_is_seen_by_its_replacement() -> None:
    before = Moved(owner="top", pod="gone", source="a", at=NOON - timedelta(minutes=1))
    heir = pod("web-9", on="a", status=WELL, metadata={"uid": "u9", "creationTimestamp": NOON - timedelta(seconds=50)})
    (move,) = planned([*crowd(), heir], History(moves=(before,))).history.moves
    assert (move.outcome, move.target) == (BACK, "a")


def test_a_pod_so_large_that_every_node_becomes_hot_stays() -> None:
    large = [pod("web-0", on="a", cpu="3500m", status=WELL, metadata={"uid": "u0"})]
    assert planned(large).moves == ()
