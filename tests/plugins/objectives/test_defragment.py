from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import node, pod

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.node_info import resident
from trimtab.decide.rescheduling.history import DONE, History
from trimtab.decide.rescheduling.move_simulation import Proposal, Round
from trimtab.decide.rescheduling.objectives import Candidate, objectives
from trimtab.decide.rescheduling.plan import Plan, made, plan
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import Facts, Picture

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
SMALL = {"size": "small"}
NODES = [node("a", cpu="8"), node("b", cpu="4", labels=SMALL), node("c", cpu="4", labels=SMALL)]


def here(name: str, on: str, cpu: str, *, born: datetime = NOON - timedelta(days=1)) -> Pod:
    metadata = {"uid": name, "creationTimestamp": born}
    selector = {"node_selector": SMALL} if name.startswith(("two", "thr")) else {}
    made = pod(name, on=on, cpu=cpu, memory="1Mi", owner=f"ReplicaSet/{name[:3]}", status=WELL, metadata=metadata)
    return made.but(spec=made.spec.but(**selector))


LARGE = pod(
    "large",
    cpu="7",
    memory="1Mi",
    owner="ReplicaSet/big",
    metadata={"uid": "large", "creationTimestamp": NOON - timedelta(minutes=5)},
)
CHAIN = [here("one-1", "a", "3"), here("two-1", "b", "2"), here("thr-1", "c", "2")]
"""The large pod needs all of a; what runs there needs three quarters of b, whose pod fits beside that of c."""


def look(pods: list[Pod], history: History | None = None, now: datetime = NOON, **more: Any) -> tuple[Plan, Picture]:
    nodes, args = more.pop("nodes", NODES), more.pop("args", {})
    wanted = {"preset": "aggressive", "objectives": [{"name": "Defragment", "args": args}], "minReplicas": 1, **more}
    snapshot = Picture(Facts(nodes, pods), read_settings(wanted, KNOWN), history or History(), now)
    return plan(snapshot), snapshot


def steps(found: Plan) -> list[tuple[str, str, str]]:
    return [(one.pod.name, one.source, one.expected) for one in found.moves]


def done(found: Plan, picture: Picture) -> History:
    return found.history.with_moves([made(move, picture) for move in found.moves], picture.now)


def test_one_pod_makes_room_for_another_that_makes_room_for_the_large_pod() -> None:
    found, snapshot = look([*CHAIN, LARGE])
    assert steps(found) == [("two-1", "b", "c")]
    (chain,) = found.history.chains
    assert [(one.name, one.source, one.expected) for one in chain.steps] == [
        ("default/two-1", "b", "c"),
        ("default/one-1", "a", "b"),
    ]
    assert (found.moves[0].avoid, found.moves[0].until) == ("short", "large")
    later = NOON + timedelta(minutes=1)
    waits = [CHAIN[0], CHAIN[2], here("two-2", "", "2", born=later), LARGE]
    second, _ = look(waits, done(found, snapshot), later)
    assert steps(second) == []  # the replacement has no node yet
    assert second.history.chains == found.history.chains
    moved = [CHAIN[0], CHAIN[2], here("two-2", "c", "2", born=later), LARGE]
    second, snapshot = look(moved, done(found, snapshot), later)
    assert steps(second) == [("one-1", "a", "b")]
    last = [CHAIN[2], here("two-2", "c", "2", born=later), here("one-2", "b", "3", born=later)]
    third, _ = look([*last, pod("large", on="a", cpu="7", metadata={"uid": "large"})], done(second, snapshot), later)
    assert (third.moves, third.history.chains) == ((), ())
    assert [one.outcome for one in third.history.moves] == [DONE, DONE]


def test_a_chain_is_abandoned_when_a_step_fails_and_a_new_one_starts() -> None:
    found, snapshot = look([*CHAIN, LARGE])
    later = NOON + timedelta(minutes=1)
    back = [CHAIN[0], here("two-2", "b", "2", born=later), CHAIN[2], LARGE]
    again, _ = look(back, done(found, snapshot), later)
    assert "the plan it was a step of is abandoned: default/two-1 did not leave b" in {
        one.reason for one in again.refused
    }
    assert again.history.chains == ()  # its owner has a wasted move and is in backoff
    grown = [CHAIN[0], here("two-2", "c", "2", born=later), here("new-1", "b", "3"), CHAIN[2], LARGE]
    again, _ = look(grown, done(found, snapshot), later)
    assert "default/one-1 would go to no node, not to b" in {
        one.reason.partition("abandoned: ")[2] for one in again.refused
    }


def test_a_chain_expires_and_blocks_other_moves_meanwhile() -> None:
    found, snapshot = look([*CHAIN, LARGE])
    later = NOON + timedelta(minutes=11)
    ending = CHAIN[1].but(metadata=CHAIN[1].metadata.but(deletion_timestamp=NOON))
    stuck, _ = look([CHAIN[0], ending, CHAIN[2], LARGE], done(found, snapshot), later)
    assert "it has taken too long" in {one.reason.partition("abandoned: ")[2] for one in stuck.refused}
    soon = NOON + timedelta(minutes=1)
    wanted = [{"name": "UnderutilisedNodes", "args": {"low": {"cpu": 50}, "high": {"cpu": 70}}}]
    pods = [CHAIN[0], ending, CHAIN[2], here("fat-1", "c", "1"), LARGE]
    assert steps(look(pods, now=soon, objectives=wanted)[0]) == [("fat-1", "c", "a")]
    busy, _ = look(pods, done(found, snapshot), soon, objectives=wanted)
    assert busy.moves == ()
    assert "a plan of several steps is under way" in {one.reason for one in busy.refused}


def test_a_group_of_moves_is_rejected_as_a_whole() -> None:
    young = CHAIN[0].but(status=CHAIN[0].status.but(start_time=NOON - timedelta(seconds=5)))
    found, _ = look([young, *CHAIN[1:], LARGE])
    assert found.moves == ()
    assert {one.pod.name: one.reason for one in found.refused} == {
        "one-1": "it is younger than 2m",
        "two-1": "one-1, which must move too, is not moved: it is younger than 2m",
    }


def test_several_pods_of_one_owner_move_one_after_the_other() -> None:
    pods = [here(f"sam-{n}", "a", "1500m") for n in range(4)]
    found, _ = look([*pods, LARGE], objectives=[{"name": "Defragment"}])
    assert len(found.moves) == 1
    assert len(found.history.chains[0].steps) >= 3


def test_a_step_that_lands_on_another_node_ends_the_chain_and_a_new_one_starts() -> None:
    nodes = [*NODES, node("d", cpu="4", labels=SMALL, taints=["old:NoSchedule"])]
    found, snapshot = look([*CHAIN, LARGE], nodes=nodes)
    assert steps(found) == [("two-1", "b", "c")]
    later = NOON + timedelta(minutes=1)
    astray = [CHAIN[0], here("two-2", "d", "2", born=later), CHAIN[2], LARGE]
    again, _ = look(astray, done(found, snapshot), later, nodes=nodes)
    said = "the plan it was a step of is abandoned: default/two-1 went to d, not to c"
    assert said in {one.reason for one in again.refused}
    assert steps(again) == [("one-1", "a", "b")]  # a new chain of one step
    assert again.history.chains == ()


def test_no_chain_has_more_than_five_steps() -> None:
    """The large pod needs all of a, where six pods would have to move."""

    def found(pods: int) -> Plan:
        crowd = [here(f"{name}-1", "a", "1") for name in ("aaa", "bbb", "ccc", "ddd", "eee", "fff")[:pods]]
        whole = LARGE.but(spec=pod("large", cpu="8", memory="1Mi").spec)
        return look([*crowd, whole], args={"mostMoves": 9})[0]

    assert len(found(5).history.chains[0].steps) == 5
    assert (found(6).moves, found(6).history.chains) == ((), ())


def test_a_group_of_more_than_five_steps_is_rejected_as_a_whole() -> None:
    pods = [here(f"{name}-1", "a", "1") for name in ("aaa", "bbb", "ccc", "ddd", "eee", "fff")]
    _, snapshot = look(pods)
    round_ = Round(snapshot)
    wishes = [Candidate(resident(one), 100.0, "why", together="x", step=n) for n, one in enumerate(pods, start=1)]
    assert round_.take([Proposal("Mine", one) for one in wishes]) is None
    assert round_.moves == []
    assert round_.refused[0].reason == "it takes 6 steps, more than 5"
