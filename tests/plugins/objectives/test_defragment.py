from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import node, pod

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects
from trimtab.decide.rescheduling.history import DONE, ReschedulingHistory
from trimtab.decide.rescheduling.move_simulation import MoveProposal, MoveSimulation
from trimtab.decide.rescheduling.objectives import MoveCandidate, objectives
from trimtab.decide.rescheduling.plan import ReschedulingPlan, move_record, plan_moves
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
SMALL = {"size": "small"}
NODES = [node("a", cpu="8"), node("b", cpu="4", labels=SMALL), node("c", cpu="4", labels=SMALL)]


def pod_on(name: str, on: str, cpu: str, *, born: datetime = NOON - timedelta(days=1)) -> Pod:
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
CHAIN = [pod_on("one-1", "a", "3"), pod_on("two-1", "b", "2"), pod_on("thr-1", "c", "2")]
"""The large pod needs all of a; what runs there needs three quarters of b, whose pod fits beside that of c."""


def plan_for(
    pods: list[Pod], history: ReschedulingHistory | None = None, now: datetime = NOON, **more: Any
) -> tuple[ReschedulingPlan, ReschedulingSnapshot]:
    nodes, args = more.pop("nodes", NODES), more.pop("args", {})
    wanted = {"preset": "aggressive", "objectives": [{"name": "Defragment", "args": args}], "minReplicas": 1, **more}
    snapshot = ReschedulingSnapshot(
        ClusterObjects(nodes, pods), read_settings(wanted, KNOWN), history or ReschedulingHistory(), now
    )
    return plan_moves(snapshot), snapshot


def moves_of(found: ReschedulingPlan) -> list[tuple[str, str, str]]:
    return [(one.pod.name, one.source, one.expected) for one in found.moves]


def history_after(found: ReschedulingPlan, snapshot: ReschedulingSnapshot) -> ReschedulingHistory:
    return found.history.with_moves([move_record(move, snapshot) for move in found.moves], snapshot.now)


def test_one_pod_makes_room_for_another_that_makes_room_for_the_large_pod() -> None:
    found, snapshot = plan_for([*CHAIN, LARGE])
    assert moves_of(found) == [("two-1", "b", "c")]
    (chain,) = found.history.chains
    assert [(one.name, one.source, one.expected) for one in chain.steps] == [
        ("default/two-1", "b", "c"),
        ("default/one-1", "a", "b"),
    ]
    assert (found.moves[0].avoid, found.moves[0].for_pod) == ("short", "large")
    later = NOON + timedelta(minutes=1)
    waits = [CHAIN[0], CHAIN[2], pod_on("two-2", "", "2", born=later), LARGE]
    second, _ = plan_for(waits, history_after(found, snapshot), later)
    assert moves_of(second) == []  # the replacement has no node yet
    assert second.history.chains == found.history.chains
    moved = [CHAIN[0], CHAIN[2], pod_on("two-2", "c", "2", born=later), LARGE]
    second, snapshot = plan_for(moved, history_after(found, snapshot), later)
    assert moves_of(second) == [("one-1", "a", "b")]
    last = [CHAIN[2], pod_on("two-2", "c", "2", born=later), pod_on("one-2", "b", "3", born=later)]
    third, _ = plan_for(
        [*last, pod("large", on="a", cpu="7", metadata={"uid": "large"})], history_after(second, snapshot), later
    )
    assert (third.moves, third.history.chains) == ((), ())
    assert [one.outcome for one in third.history.moves] == [DONE, DONE]


def test_a_chain_is_abandoned_when_a_step_fails_and_a_new_one_starts() -> None:
    found, snapshot = plan_for([*CHAIN, LARGE])
    later = NOON + timedelta(minutes=1)
    back = [CHAIN[0], pod_on("two-2", "b", "2", born=later), CHAIN[2], LARGE]
    again, _ = plan_for(back, history_after(found, snapshot), later)
    assert "the plan it was a step of is abandoned: default/two-1 did not leave b" in {
        one.reason for one in again.rejected
    }
    assert again.history.chains == ()  # its owner has a wasted move and is in backoff
    grown = [CHAIN[0], pod_on("two-2", "c", "2", born=later), pod_on("new-1", "b", "3"), CHAIN[2], LARGE]
    again, _ = plan_for(grown, history_after(found, snapshot), later)
    assert "default/one-1 would go to no node, not to b" in {
        one.reason.partition("abandoned: ")[2] for one in again.rejected
    }


def test_a_chain_expires_and_blocks_other_moves_meanwhile() -> None:
    found, snapshot = plan_for([*CHAIN, LARGE])
    later = NOON + timedelta(minutes=11)
    ending = CHAIN[1].but(metadata=CHAIN[1].metadata.but(deletion_timestamp=NOON))
    stuck, _ = plan_for([CHAIN[0], ending, CHAIN[2], LARGE], history_after(found, snapshot), later)
    assert "it has taken too long" in {one.reason.partition("abandoned: ")[2] for one in stuck.rejected}
    soon = NOON + timedelta(minutes=1)
    wanted = [{"name": "UnderutilisedNodes", "args": {"low": {"cpu": 50}, "high": {"cpu": 70}}}]
    pods = [CHAIN[0], ending, CHAIN[2], pod_on("fat-1", "c", "1"), LARGE]
    assert moves_of(plan_for(pods, now=soon, objectives=wanted)[0]) == [("fat-1", "c", "a")]
    busy, _ = plan_for(pods, history_after(found, snapshot), soon, objectives=wanted)
    assert busy.moves == ()
    assert "a plan of several steps is under way" in {one.reason for one in busy.rejected}


def test_a_group_of_moves_is_rejected_as_a_whole() -> None:
    young = CHAIN[0].but(status=CHAIN[0].status.but(start_time=NOON - timedelta(seconds=5)))
    found, _ = plan_for([young, *CHAIN[1:], LARGE])
    assert found.moves == ()
    assert {one.pod.name: one.reason for one in found.rejected} == {
        "one-1": "it is younger than 2m",
        "two-1": "one-1, which must move too, is not moved: it is younger than 2m",
    }


def test_several_pods_of_one_owner_move_one_after_the_other() -> None:
    pods = [pod_on(f"sam-{n}", "a", "1500m") for n in range(4)]
    found, _ = plan_for([*pods, LARGE], objectives=[{"name": "Defragment"}])
    assert len(found.moves) == 1
    assert len(found.history.chains[0].steps) >= 3


def test_a_step_that_lands_on_another_node_ends_the_chain_and_a_new_one_starts() -> None:
    nodes = [*NODES, node("d", cpu="4", labels=SMALL, taints=["old:NoSchedule"])]
    found, snapshot = plan_for([*CHAIN, LARGE], nodes=nodes)
    assert moves_of(found) == [("two-1", "b", "c")]
    later = NOON + timedelta(minutes=1)
    astray = [CHAIN[0], pod_on("two-2", "d", "2", born=later), CHAIN[2], LARGE]
    again, _ = plan_for(astray, history_after(found, snapshot), later, nodes=nodes)
    said = "the plan it was a step of is abandoned: default/two-1 went to d, not to c"
    assert said in {one.reason for one in again.rejected}
    assert moves_of(again) == [("one-1", "a", "b")]  # a new chain of one step
    assert again.history.chains == ()


def test_no_chain_has_more_than_five_steps() -> None:
    """The large pod needs all of a, where six pods would have to move."""

    def found(pods: int) -> ReschedulingPlan:
        crowd = [pod_on(f"{name}-1", "a", "1") for name in ("aaa", "bbb", "ccc", "ddd", "eee", "fff")[:pods]]
        whole = LARGE.but(spec=pod("large", cpu="8", memory="1Mi").spec)
        return plan_for([*crowd, whole], args={"mostMoves": 9})[0]

    assert len(found(5).history.chains[0].steps) == 5
    assert (found(6).moves, found(6).history.chains) == ((), ())


def test_a_group_of_more_than_five_steps_is_rejected_as_a_whole() -> None:
    pods = [pod_on(f"{name}-1", "a", "1") for name in ("aaa", "bbb", "ccc", "ddd", "eee", "fff")]
    _, snapshot = plan_for(pods)
    round_ = MoveSimulation(snapshot)
    preferences = [
        MoveCandidate(build_pod_info(one), 100.0, "why", group="x", step=n) for n, one in enumerate(pods, start=1)
    ]
    assert round_.apply_group([MoveProposal("Mine", one) for one in preferences]) is None
    assert round_.moves == []
    assert round_.rejected[0].reason == "it takes 6 steps, more than 5"
