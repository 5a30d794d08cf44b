from datetime import UTC, datetime, timedelta
from typing import Any

from pod_builders import pod

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.preemption.recent_disruptions import Burden, burden

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
READY = {"type": "Ready", "status": "True"}


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


LONG_AGO = minutes(600)


def one(name: str, *, born: timedelta = LONG_AGO, ready: bool = True, **metadata: Any) -> Pod:
    made = {"uid": name, "creationTimestamp": NOON - born, **metadata}
    return pod(name, "a", metadata=made, status={"conditions": [READY] if ready else []})


def three(*further: Pod) -> list[Pod]:
    return [one("p1"), one("p2"), one("p3"), *further]


def test_a_tenth_of_the_replicas_and_at_least_one_may_be_disrupted_at_once() -> None:
    assert [Burden("o", replicas).spare for replicas in (0, 1, 10, 11, 25)] == [1, 1, 1, 2, 3]
    assert Burden("o", 25, down=2).spare == 1
    assert Burden("o", 25, down=9).spare == 0


def test_disrupted_pod_counts_until_a_pod_created_later_is_ready() -> None:
    ends = {"gone": NOON - minutes(2)}
    assert burden("o", 4, three(), ends, NOON).down == 1
    assert burden("o", 4, three(one("replacement", born=minutes(1), ready=False)), ends, NOON).down == 1
    assert burden("o", 4, three(one("replacement", born=minutes(1))), ends, NOON).down == 0


def test_every_disruption_needs_its_own_replacement() -> None:
    ends = {"gone": NOON - minutes(2), "lost": NOON - minutes(1)}
    assert burden("o", 5, three(one("replacement", born=minutes(2))), ends, NOON).down == 1
    assert burden("o", 5, three(one("replacement", born=minutes(3))), ends, NOON).down == 1
    assert burden("o", 9, three(one("replacement", born=minutes(3))), ends, NOON).down == 2


def test_unready_pods_do_not_count_as_disrupted() -> None:
    assert burden("o", 4, three(one("ill", ready=False)), {}, NOON) == Burden("o", 4)


def test_pod_with_disruption_target_counts_before_any_event() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOON}
    leaving = one("leaving", deletionTimestamp=NOON)
    leaving = leaving.but(status=pod("x", status={"conditions": [READY, condition]}).status)
    assert burden("o", 4, three(leaving), {}, NOON) == Burden("o", 4, down=1, lately=1, leaving=frozenset(["leaving"]))
    assert burden("o", 4, three(leaving), {"leaving": NOON}, NOON) == Burden(
        "o", 4, down=1, lately=1, leaving=frozenset(["leaving"])
    )


def test_evicted_pod_that_still_runs_counts_as_unreplaced() -> None:
    assert burden("o", 3, three(), {"p2": NOON}, NOON).down == 1


def test_disruption_without_replacement_expires_as_unreplaced_but_stays_recent() -> None:
    assert burden("o", 4, three(), {"gone": NOON - minutes(11)}, NOON) == Burden("o", 4, down=0, lately=1)
    assert burden("o", 4, three(), {"gone": NOON - minutes(61)}, NOON) == Burden("o", 4)


def test_owner_scaled_down_misses_no_replica() -> None:
    assert burden("o", 3, three(), {"gone": NOON - minutes(2)}, NOON).down == 0
