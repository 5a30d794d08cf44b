from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import pod

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.preemption.recent_disruptions import RecentDisruptions, recent_disruptions_of

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
READY = {"type": "Ready", "status": "True"}


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


LONG_AGO = minutes(600)


def replica(name: str, *, age: timedelta = LONG_AGO, ready: bool = True, **metadata: Any) -> Pod:
    made = {"uid": name, "creationTimestamp": NOON - age, **metadata}
    return pod(name, "a", metadata=made, status={"conditions": [READY] if ready else []})


def three_replicas(*further: Pod) -> list[Pod]:
    return [replica("p1"), replica("p2"), replica("p3"), *further]


def test_a_tenth_of_the_replicas_and_at_least_one_may_be_disrupted_at_once() -> None:
    assert [RecentDisruptions("o", replicas).remaining for replicas in (0, 1, 10, 11, 25)] == [1, 1, 1, 2, 3]
    assert RecentDisruptions("o", 25, unreplaced=2).remaining == 1
    assert RecentDisruptions("o", 25, unreplaced=9).remaining == 0


def test_disrupted_pod_counts_until_a_pod_created_later_is_ready() -> None:
    ends = {"gone": NOON - minutes(2)}
    assert recent_disruptions_of("o", 4, three_replicas(), ends, NOON).unreplaced == 1
    assert (
        recent_disruptions_of(
            "o", 4, three_replicas(replica("replacement", age=minutes(1), ready=False)), ends, NOON
        ).unreplaced
        == 1
    )
    assert (
        recent_disruptions_of("o", 4, three_replicas(replica("replacement", age=minutes(1))), ends, NOON).unreplaced
        == 0
    )


def test_every_disruption_needs_its_own_replacement() -> None:
    ends = {"gone": NOON - minutes(2), "lost": NOON - minutes(1)}
    assert (
        recent_disruptions_of("o", 5, three_replicas(replica("replacement", age=minutes(2))), ends, NOON).unreplaced
        == 1
    )
    assert (
        recent_disruptions_of("o", 5, three_replicas(replica("replacement", age=minutes(3))), ends, NOON).unreplaced
        == 1
    )
    assert (
        recent_disruptions_of("o", 9, three_replicas(replica("replacement", age=minutes(3))), ends, NOON).unreplaced
        == 2
    )


def test_unready_pods_do_not_count_as_disrupted() -> None:
    assert recent_disruptions_of("o", 4, three_replicas(replica("ill", ready=False)), {}, NOON) == RecentDisruptions(
        "o", 4
    )


def test_pod_with_disruption_target_counts_before_any_event() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOON}
    leaving = replica("leaving", deletionTimestamp=NOON)
    leaving = leaving.but(status=pod("x", status={"conditions": [READY, condition]}).status)
    assert recent_disruptions_of("o", 4, three_replicas(leaving), {}, NOON) == RecentDisruptions(
        "o", 4, unreplaced=1, recent=1, leaving_uids=frozenset(["leaving"])
    )
    assert recent_disruptions_of("o", 4, three_replicas(leaving), {"leaving": NOON}, NOON) == RecentDisruptions(
        "o", 4, unreplaced=1, recent=1, leaving_uids=frozenset(["leaving"])
    )


def test_evicted_pod_that_still_runs_counts_as_unreplaced() -> None:
    assert recent_disruptions_of("o", 3, three_replicas(), {"p2": NOON}, NOON).unreplaced == 1


def test_disruption_without_replacement_expires_as_unreplaced_but_stays_recent() -> None:
    assert recent_disruptions_of("o", 4, three_replicas(), {"gone": NOON - minutes(11)}, NOON) == RecentDisruptions(
        "o", 4, unreplaced=0, recent=1
    )
    assert recent_disruptions_of("o", 4, three_replicas(), {"gone": NOON - minutes(61)}, NOON) == RecentDisruptions(
        "o", 4
    )


def test_owner_scaled_down_misses_no_replica() -> None:
    assert recent_disruptions_of("o", 3, three_replicas(), {"gone": NOON - minutes(2)}, NOON).unreplaced == 0
