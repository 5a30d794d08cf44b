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


def test_a_tenth_of_an_owner_may_go_at_once_and_at_least_one() -> None:
    assert [Burden("o", replicas).spare for replicas in (0, 1, 10, 11, 25)] == [1, 1, 1, 2, 3]
    assert Burden("o", 25, down=2).spare == 1
    assert Burden("o", 25, down=9).spare == 0


def test_what_was_disrupted_is_down_until_a_pod_born_later_is_ready() -> None:
    ends = {"gone": NOON - minutes(2)}
    assert burden("o", 4, three(), ends, NOON).down == 1
    assert burden("o", 4, three(one("heir", born=minutes(1), ready=False)), ends, NOON).down == 1
    assert burden("o", 4, three(one("heir", born=minutes(1))), ends, NOON).down == 0


def test_every_disruption_wants_a_replacement_of_its_own() -> None:
    ends = {"gone": NOON - minutes(2), "lost": NOON - minutes(1)}
    assert burden("o", 5, three(one("heir", born=minutes(2))), ends, NOON).down == 1
    assert burden("o", 5, three(one("heir", born=minutes(3))), ends, NOON).down == 1
    assert burden("o", 9, three(one("heir", born=minutes(3))), ends, NOON).down == 2


def test_pods_that_are_merely_ill_were_not_disrupted() -> None:
    assert burden("o", 4, three(one("ill", ready=False)), {}, NOON) == Burden("o", 4)


def test_a_pod_that_says_who_ends_it_counts_before_anybody_told() -> None:
    said = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOON}
    leaving = one("leaving", deletionTimestamp=NOON)
    leaving = leaving.but(status=pod("x", status={"conditions": [READY, said]}).status)
    assert burden("o", 4, three(leaving), {}, NOON) == Burden("o", 4, down=1, lately=1, leaving=frozenset(["leaving"]))
    assert burden("o", 4, three(leaving), {"leaving": NOON}, NOON) == Burden(
        "o", 4, down=1, lately=1, leaving=frozenset(["leaving"])
    )


def test_a_pod_that_is_about_to_go_is_down_although_it_still_runs() -> None:
    assert burden("o", 3, three(), {"p2": NOON}, NOON).down == 1


def test_what_nothing_replaces_for_long_counts_no_more_as_down_but_as_borne() -> None:
    assert burden("o", 4, three(), {"gone": NOON - minutes(11)}, NOON) == Burden("o", 4, down=0, lately=1)
    assert burden("o", 4, three(), {"gone": NOON - minutes(61)}, NOON) == Burden("o", 4)


def test_an_owner_that_wants_fewer_misses_nothing() -> None:
    assert burden("o", 3, three(), {"gone": NOON - minutes(2)}, NOON).down == 0
