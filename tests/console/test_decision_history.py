"""The decisions about a workload, their file, and the columns of its history."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from builders import binding

from console.fake_console import NOW, call, fill, new_console, signed_in
from trimtab.api.kinds.work import Binding, DecisionRecord, RejectedClusters, TargetCluster
from trimtab.api.value import Condition
from trimtab.console.application import Console
from trimtab.console.decision_history import MAX_DECISIONS, DecisionHistory
from trimtab.console.facts import MoveFacts
from trimtab.console.pages.workload import placement_in
from trimtab.console.pictures.history import stages_of


def test_only_changes_are_noted_and_only_the_latest() -> None:
    now = NOW
    history = DecisionHistory(lambda: now)
    for replicas in (1, 1, 2, 2, 3):
        history.add(binding("web", clusters={"m1": replicas}))
        now += timedelta(seconds=10)
    name = binding("web").name
    assert [one.placement for one in history.decisions("demo", name)] == [{"m1": 1}, {"m1": 2}, {"m1": 3}]
    for replicas in range(50):
        history.add(binding("web", clusters={"m1": replicas + 10}))
    assert len(history.decisions("demo", name)) == MAX_DECISIONS


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


def with_record(one: Binding, at: datetime, rejected: int = 0) -> Binding:
    groups = (RejectedClusters(filter="TaintToleration", message="a taint", count=rejected, clusters=("m9",)),)
    record = DecisionRecord(
        time=at, mode="Steady", total_clusters=3, feasible_clusters=3 - rejected, rejected=groups if rejected else ()
    )
    return one.but(status=one.status.but(decision=record))


def test_decisions_outlive_the_process(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    first = DecisionHistory(lambda: NOW, file)
    first.add(with_record(binding("web", clusters={"m1": 2}), NOW))
    first.add(with_record(binding("web", clusters={"m2": 2}), NOW + timedelta(minutes=1), rejected=1))
    first.close()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes() + b"damaged\n")
    second = DecisionHistory(lambda: NOW, file)
    name = binding("web").name
    assert second.decisions("demo", name) == first.decisions("demo", name)
    last = second.decisions("demo", name)[-1]
    assert (last.at, last.feasible, last.rejected[0].clusters) == (NOW + timedelta(minutes=1), 2, ("m9",))
    other = binding("web", clusters={"m3": 1})
    second.add(other.but(metadata=other.metadata.but(uid="another")))
    assert [one.placement for one in second.decisions("demo", name)] == [{"m3": 1}]


def test_file_of_many_outdated_decisions_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    history = DecisionHistory(lambda: NOW, file)
    for round_ in range(3):
        for replicas in range(500):
            history.add(binding("web", clusters={"m1": round_ * 500 + replicas + 1}))
        history.close()
    assert len(file.read_bytes().splitlines()) <= MAX_DECISIONS + 500
    assert [one.placement["m1"] for one in DecisionHistory(lambda: NOW, file).decisions("demo", binding("web").name)][
        -1
    ] == 1500


def test_full_disk_keeps_the_decisions_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = DecisionHistory(lambda: NOW, tmp_path / "missing" / "decisions.jsonl")
    history.add(binding("web", clusters={"m1": 1}))
    history.close()
    assert "were not written" in caplog.text
    assert history.decisions("demo", binding("web").name)


def test_decision_that_found_no_cluster_is_noted_with_its_message() -> None:
    history = DecisionHistory(lambda: NOW)
    one = binding("web")
    failed = Condition(type="Scheduled", status="False", reason="NoClusterFit", message="0/3 fit")
    one = one.but(spec=one.spec.but(clusters=()), status=one.status.but(conditions=(failed,)))
    history.add(one)
    history.add(one)
    assert [(past.placement, past.message) for past in history.decisions("demo", one.name)] == [({}, "0/3 fit")]


def console_with_decisions() -> tuple[Console, str]:
    console = new_console()
    fill(console)
    (one,) = [one for one in console.model.bindings.values() if one.namespace == "shop"]
    for minutes, clusters in ((30, {"web-c2": 3}), (20, {}), (10, {"web-c0": 2, "web-c1": 1})):
        targets = tuple(TargetCluster(name=name, replicas=count) for name, count in clusters.items())
        failed = Condition(type="Scheduled", status="False", message="no room", last_transition_time=NOW)
        then = NOW - timedelta(minutes=minutes)
        status = one.status.but(conditions=() if clusters else (failed.but(last_transition_time=then),))
        console.data.decisions.add(
            with_record(one.but(spec=one.spec.but(clusters=targets), status=status), then, rejected=minutes // 30)
        )
    return console, "/workloads/shop/Deployment/web"


def test_page_tells_what_was_decided_at_a_time() -> None:
    console, path = console_with_decisions()
    cookie, _ = signed_in(console)

    async def scenario() -> None:
        page = (await call(console, path, cookie=cookie)).text
        assert page.count("?at=2026-11-16T15:") == 2  # the last one is the page without a time
        past = (await call(console, f"{path}?at=2026-11-16T15:50:00Z", cookie=cookie)).text
        assert "the record of a past decision" in past
        assert "TaintToleration" in past
        assert "Back to now" in past
        failed = (await call(console, f"{path}?at=2026-11-16T15:59:00Z", cookie=cookie)).text
        assert "no room" in failed
        now = (await call(console, f"{path}?at=2026-11-16T16:14:00Z", cookie=cookie)).text
        assert "the record of a past decision" not in now
        assert (await call(console, f"{path}?at=2026-11-15T00:00:00Z", cookie=cookie)).code == 404
        assert (await call(console, f"{path}?at=yesterday", cookie=cookie)).code == 400

    asyncio.run(scenario())
