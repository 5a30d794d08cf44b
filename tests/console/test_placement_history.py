"""The placements that a workload has had, and the columns of its history."""

from datetime import timedelta

from builders import binding

from console.fake_console import NOW
from trimtab.console.facts import MoveFacts
from trimtab.console.pages.workload import placement_in
from trimtab.console.pictures.history import stages_of
from trimtab.console.placement_history import MAX_PLACEMENTS, PlacementHistory


def test_only_changes_are_noted_and_only_the_latest() -> None:
    now = NOW
    history = PlacementHistory(lambda: now)
    for replicas in (1, 1, 2, 2, 3):
        history.add(binding("web", clusters={"m1": replicas}))
        now += timedelta(seconds=10)
    name = binding("web").name
    assert [placement for _, placement in history.placements("demo", name)] == [{"m1": 1}, {"m1": 2}, {"m1": 3}]
    for replicas in range(50):
        history.add(binding("web", clusters={"m1": replicas + 10}))
    assert len(history.placements("demo", name)) == MAX_PLACEMENTS


def test_placement_is_read_from_the_event_of_the_scheduler() -> None:
    text = "Binding has been scheduled successfully. Result: {ams-1:2, dub-1:7, none:0}"
    assert placement_in(text) == {"ams-1": 2, "dub-1": 7}
    assert placement_in("Binding has been scheduled successfully. Result: {m1, m2}") == {}
    assert placement_in("something else") == {}


def test_recorded_decisions_are_the_columns_with_their_causes() -> None:
    later, last = NOW + timedelta(minutes=1), NOW + timedelta(minutes=2)
    moves = [
        MoveFacts(
            namespace="shop", id="x/1", kind="Deployment", name="web", cause="ClusterFailover", source="a",
            targets=(("c", 2),), replicas=2, started=last,
        )
    ]  # fmt: skip
    decisions = [
        (NOW, {"a": 2, "b": 2}),
        (later, {"a": 2, "b": 4}),
        (later, {"a": 2, "b": 4}),
        (last, {"b": 4, "c": 2}),
    ]
    stages = stages_of({"b": 4, "c": 2}, moves, None, decisions)
    assert [stage.title for stage in stages] == ["placed", "scaled up", "failover"]
    assert [stage.at for stage in stages] == [NOW, later, last]
    assert ("a", "c", 2, "ClusterFailover") in stages[-1].links


def test_records_that_do_not_lead_to_the_current_placement_are_not_used() -> None:
    stages = stages_of({"b": 1}, [], None, [(NOW, {"a": 1})])
    assert [stage.placement for stage in stages] == [{"b": 1}]
