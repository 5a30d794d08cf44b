from datetime import UTC, datetime, timedelta

from pod_builders import node, pod

from trimtab.decide.pods.node_info import Resident, resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.preemption.fair_share import Fairness, Shares

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
LONG_WAITING = Fairness(NOON, NOON - timedelta(minutes=5))


def old_pod(owner: str, number: int) -> Resident:
    status = {"startTime": NOON - timedelta(hours=1)}
    return resident(pod(f"{owner}-{number}", on="a", cpu="1", owner=f"ReplicaSet/{owner}", status=status))


RICH = [old_pod("rich", i) for i in range(3)]


def shares(fairness: Fairness = LONG_WAITING) -> Shares:
    fleet = NodeFleet.of([node("a", cpu="4")], [one.pod for one in [*RICH, old_pod("poor", 0)]])
    newcomer = resident(pod("poor-1", cpu="1", owner="ReplicaSet/poor"))
    return Shares(newcomer, fleet, fairness, lambda _: False)


def test_victims_leave_their_owner_at_least_the_share_of_the_preemptor() -> None:
    assert shares().stay_even(RICH[:1])
    assert not shares().stay_even(RICH[:2])


def test_share_is_the_largest_part_of_any_resource() -> None:
    assert shares().plenty(RICH[0]) == (0.75, 0.0)


def test_pod_yields_only_after_the_minimum_times_and_not_to_its_own_owner() -> None:
    assert shares().may_yield(RICH[0])
    assert not shares(LONG_WAITING._replace(waiting_since=NOON)).may_yield(RICH[0])
    assert not shares().may_yield(old_pod("poor", 0))
