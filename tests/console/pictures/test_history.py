"""The history of a placement: moves are taken back one decision at a time, and replicas are conserved."""

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from trimtab.console.facts import MoveFacts
from trimtab.console.pictures.history import draw_history, links_between, stages_of

PLACEMENT = st.dictionaries(
    st.sampled_from(["ams-1", "dub-1", "iad-1", "nrt-1"]), st.integers(1, 40), min_size=1, max_size=4
)


@given(before=PLACEMENT, after=PLACEMENT)
def test_links_between_two_stages_conserve_replicas(before: dict[str, int], after: dict[str, int]) -> None:
    links = links_between(before, after, "Drain")
    for name, count in before.items():
        assert sum(n for source, _, n, _ in links if source == name) <= count
    for name, count in after.items():
        assert sum(n for _, target, n, _ in links if target == name) <= count
    assert sum(n for _, _, n, _ in links) == min(sum(before.values()), sum(after.values()))


def move(number: int, source: str, target: str, replicas: int) -> MoveFacts:
    return MoveFacts(
        namespace="shop",
        id=f"shop/m{number}",
        kind="Deployment",
        name="web",
        cause="Drain",
        source=source,
        targets=((target, replicas),),
        replicas=replicas,
        outcome="Done",
        started=datetime(2026, 11, 16, 16, number, tzinfo=UTC),
        generation=str(number),
    )


def test_history_takes_moves_back_one_decision_at_a_time() -> None:
    stages = stages_of({"iad-1": 3, "dub-1": 1}, [move(2, "ams-1", "iad-1", 2), move(1, "nrt-1", "ams-1", 2)])
    assert [stage.placement for stage in stages] == [
        {"iad-1": 1, "dub-1": 1, "nrt-1": 2},
        {"iad-1": 1, "dub-1": 1, "ams-1": 2},
        {"iad-1": 3, "dub-1": 1},
    ]
    drawn = draw_history(stages, {"iad-1": [("ready", 3)]})
    assert drawn.count('class="rb Drain"') == 2


def test_failover_that_is_decided_in_two_steps_is_one_stage() -> None:
    failover = msgspec.structs.replace(move(10, "nrt-1", "iad-1", 2), cause="ClusterFailover")
    at = failover.started
    assert at is not None
    decisions = [
        (at - timedelta(minutes=5), {"iad-1": 2, "nrt-1": 2}),
        (at, {"iad-1": 2}),
        (at + timedelta(milliseconds=80), {"iad-1": 4}),
    ]
    stages = stages_of({"iad-1": 4}, [failover], decisions=decisions)
    assert [(stage.title, stage.placement) for stage in stages] == [
        ("placed", {"iad-1": 2, "nrt-1": 2}),
        ("failover", {"iad-1": 4}),
    ]
    assert ("nrt-1", "iad-1", 2, "ClusterFailover") in stages[1].links
