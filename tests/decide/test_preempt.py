from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pod_builders import node, pod
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.decide.framework import Reason
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.schedule import book, schedule
from trimtab.decide.pods.shares import Fairness
from trimtab.decide.pods.terms import Choice
from trimtab.decide.preempt import Cover, Preemption, preempt

WEB = Choice((("app", "web"),))


def found(asked: Pod, fleet: NodeFleet, covers: list[Cover] | None = None, profile: Profile = UPSTREAM) -> Preemption:
    answer = preempt(asked, fleet, covers or [], profile)
    assert isinstance(answer, Preemption)
    return answer


def names(answer: Preemption) -> list[str]:
    return [one.name for one in answer.chosen.victims]


def test_only_lower_priorities_are_victims() -> None:
    fleet = NodeFleet.of([node("a", cpu="2")], [pod("same", on="a", cpu="2", priority=5)])
    assert isinstance(preempt(pod("p", cpu="1", priority=5), fleet, [], UPSTREAM), Reason)


def test_two_small_unimportant_pods_go_before_one_large_important_pod() -> None:
    running = [
        pod("large", on="a", cpu="2", priority=3),
        pod("small-1", on="a", cpu="1", priority=1),
        pod("small-2", on="a", cpu="1", priority=1),
    ]
    answer = found(pod("p", cpu="2", priority=9), NodeFleet.of([node("a", cpu="4")], running))
    assert sorted(names(answer)) == ["small-1", "small-2"]


def test_the_node_with_the_least_important_victim_is_chosen() -> None:
    running = [pod("r", on="a", cpu="2", priority=4), pod("s", on="b", cpu="2", priority=2)]
    answer = found(pod("p", cpu="1", priority=9), NodeFleet.of([node("a", cpu="2"), node("b", cpu="2")], running))
    assert answer.chosen.node == "b"


def test_a_pod_that_never_preempts_does_not() -> None:
    fleet = NodeFleet.of([node("a", cpu="2")], [pod("r", on="a", cpu="2", priority=0)])
    answer = preempt(pod("p", cpu="1", priority=9, preemptionPolicy="Never"), fleet, [], UPSTREAM)
    assert isinstance(answer, Reason)
    assert answer.code == "NeverPreempts"


def test_a_pod_whose_victims_are_leaving_waits() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = pod(
        "r",
        on="a",
        cpu="2",
        priority=0,
        metadata={"deletionTimestamp": "2026-08-01T00:00:00Z"},
        status={"conditions": [condition]},
    )
    fleet = NodeFleet.of([node("a", cpu="2")], [leaving])
    answer = preempt(pod("p", cpu="1", priority=9, status={"nominatedNodeName": "a"}), fleet, [], UPSTREAM)
    assert isinstance(answer, Reason)
    assert answer.code == "VictimsLeaving"


CLOSED = [Cover("default", WEB, 0)]


def guarded() -> NodeFleet:
    return NodeFleet.of([node("a", cpu="2")], [pod("r", on="a", cpu="2", priority=0)])


def test_upstream_breaks_a_budget_when_nothing_else_helps() -> None:
    assert found(pod("p", cpu="1", priority=9), guarded(), CLOSED).chosen.violations == 1


def test_our_profile_never_breaks_a_budget() -> None:
    assert isinstance(preempt(pod("p", cpu="1", priority=9), guarded(), CLOSED, TRIMTAB), Reason)


def test_system_critical_pods_are_exempt() -> None:
    assert names(found(pod("p", cpu="1", priority=2_000_000_000), guarded(), CLOSED, TRIMTAB)) == ["r"]


def test_an_allowed_victim_is_found_beside_a_guarded_one() -> None:
    running = [pod("guarded", on="a", cpu="1", priority=0), pod("free", on="a", cpu="1", priority=3, app="other")]
    answer = found(pod("p", cpu="1", priority=9), NodeFleet.of([node("a", cpu="2")], running), CLOSED, TRIMTAB)
    assert names(answer) == ["free"]


def test_what_a_budget_allows_may_be_taken() -> None:
    running = [pod(f"r{i}", on="a", cpu="1", priority=i) for i in range(3)]
    fleet = NodeFleet.of([node("a", cpu="3")], running)
    assert names(found(pod("p", cpu="1", priority=9), fleet, [Cover("default", WEB, 1)], TRIMTAB)) == ["r0"]
    answer = preempt(pod("p", cpu="2", priority=9), fleet, [Cover("default", WEB, 1)], TRIMTAB)
    assert isinstance(answer, Reason)


NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
PATIENT = Fairness(NOON, NOON - timedelta(minutes=5))
LONG_AGO = {"startTime": NOON - timedelta(hours=1)}


def crowded_by(owner: str, count: int) -> NodeFleet:
    running = [pod(f"{owner}-{i}", on="a", cpu="1", owner=f"ReplicaSet/{owner}", status=LONG_AGO) for i in range(count)]
    return NodeFleet.of([node("a", cpu="4")], running)


def test_an_owner_with_less_gets_room_from_an_equal_with_more() -> None:
    asked = pod("b-0", cpu="1", owner="ReplicaSet/b")
    assert isinstance(preempt(asked, crowded_by("a", 4), [], TRIMTAB), Reason)
    answer = preempt(asked, crowded_by("a", 4), [], TRIMTAB, fairness=PATIENT)
    assert isinstance(answer, Preemption)
    assert len(answer.chosen.victims) == 1


def test_equals_yield_only_after_a_while() -> None:
    asked = pod("b-0", cpu="1", owner="ReplicaSet/b")
    hasty = Fairness(NOON, NOON - timedelta(minutes=1))
    assert isinstance(preempt(asked, crowded_by("a", 4), [], TRIMTAB, fairness=hasty), Reason)
    early = Fairness(NOON - timedelta(minutes=55), NOON - timedelta(hours=1))
    assert isinstance(preempt(asked, crowded_by("a", 4), [], TRIMTAB, fairness=early), Reason)


def test_an_owner_never_yields_to_itself_nor_to_one_that_would_have_more() -> None:
    own = pod("a-9", cpu="1", owner="ReplicaSet/a")
    assert isinstance(preempt(own, crowded_by("a", 4), [], TRIMTAB, fairness=PATIENT), Reason)
    greedy = pod("b-0", cpu="3", owner="ReplicaSet/b")
    assert isinstance(preempt(greedy, crowded_by("a", 4), [], TRIMTAB, fairness=PATIENT), Reason)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.integers(2, 8))
def test_fair_swaps_come_to_an_end(demands: list[int], size: int) -> None:
    """Whoever is pushed out asks again; places change hands a bounded number of times."""
    owners = [f"o{i}" for i in range(len(demands))]
    fleet, waiting = NodeFleet.of([node("a", cpu=str(size), pods=50)]), []
    for owner, demand in zip(owners, demands, strict=True):
        waiting += [pod(f"{owner}-{i}", cpu="1", owner=f"ReplicaSet/{owner}", status=LONG_AGO) for i in range(demand)]
    swaps = 0
    while waiting:
        progress = False
        for asked in list(waiting):
            decision = schedule(asked, fleet)
            if decision.node is None:
                answer = preempt(asked, fleet, [], TRIMTAB, fairness=PATIENT)
                if isinstance(answer, Reason):
                    continue
                fleet = fleet.vacated(answer.chosen.victims, answer.chosen.node)
                waiting += [one.pod for one in answer.chosen.victims]
                swaps += 1
                decision = schedule(asked, fleet)
            fleet = book(decision, fleet)
            waiting.remove(asked)
            progress = True
            assert swaps <= size * len(owners)
        if not progress:
            break


def lone_and_owned() -> NodeFleet:
    running = [pod("lone", on="a", cpu="1", priority=1, owner=""), pod("owned", on="a", cpu="1", priority=1)]
    return NodeFleet.of([node("a", cpu="2")], running)


def test_among_equals_a_pod_that_nothing_would_replace_goes_last() -> None:
    asked = pod("p", cpu="1", priority=9)
    assert names(found(asked, lone_and_owned(), profile=TRIMTAB)) == ["owned"]
    running = [pod("lone", on="a", cpu="1", priority=1, owner=""), pod("owned", on="b", cpu="1", priority=1)]
    fleet = NodeFleet.of([node("a", cpu="1"), node("b", cpu="1")], running)
    assert names(found(asked, fleet, profile=TRIMTAB)) == ["owned"]
    assert names(found(asked, fleet)) == ["lone"]


def test_a_more_important_pod_stays_even_if_only_a_lone_one_can_go() -> None:
    running = [pod("lone", on="a", cpu="1", priority=1, owner=""), pod("owned", on="a", cpu="1", priority=2)]
    fleet = NodeFleet.of([node("a", cpu="2")], running)
    assert names(found(pod("p", cpu="1", priority=9), fleet, profile=TRIMTAB)) == ["lone"]
