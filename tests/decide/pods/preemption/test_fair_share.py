from datetime import UTC, datetime, timedelta

from pod_builders import node, pod

from trimtab.decide.pods.node_info import PodInfo, build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.fair_share import FairShareInput, OwnerShares

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
LONG_WAITING = FairShareInput(NOON, NOON - timedelta(minutes=5))


def old_pod(owner: str, number: int) -> PodInfo:
    status = {"startTime": NOON - timedelta(hours=1)}
    return build_pod_info(pod(f"{owner}-{number}", on="a", cpu="1", owner=f"ReplicaSet/{owner}", status=status))


RICH = [old_pod("rich", i) for i in range(3)]


def shares(fairness: FairShareInput = LONG_WAITING) -> OwnerShares:
    fleet = NodeSnapshot.of([node("a", cpu="4")], [one.pod for one in [*RICH, old_pod("poor", 0)]])
    newcomer = build_pod_info(pod("poor-1", cpu="1", owner="ReplicaSet/poor"))
    return OwnerShares(newcomer, fleet, fairness, lambda _: False)


def test_victims_leave_their_owner_at_least_the_share_of_the_preemptor() -> None:
    assert shares().keeps_shares_fair(RICH[:1])
    assert not shares().keeps_shares_fair(RICH[:2])


def test_share_is_the_largest_part_of_any_resource() -> None:
    assert shares().shares_of(RICH[0]) == (0.75, 0.0)


def test_pod_yields_only_after_the_minimum_times_and_not_to_its_own_owner() -> None:
    assert shares().can_be_victim(RICH[0])
    assert not shares(LONG_WAITING._replace(waiting_since=NOON)).can_be_victim(RICH[0])
    assert not shares().can_be_victim(old_pod("poor", 0))
