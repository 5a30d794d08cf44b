"""The page of moves: what waits apart from what is stuck, and the last hour while nothing moves."""

from datetime import timedelta

from console.fake_console import NOW, fill, new_console
from console.pages.test_incident import put_move
from trimtab.console.page import PageContext
from trimtab.console.pages.moves import move_rows, moves, waiting_text
from trimtab.console.workload_facts import STUCK, WAITING


def test_stuck_workloads_are_not_counted_as_waiting() -> None:
    console = new_console()
    fill(console)
    one = console.model.workloads["shop/Deployment/web"]
    waiting, stuck = one.but(state=WAITING), one.but(state=STUCK)
    assert waiting_text([waiting, waiting, stuck]) == " 2 workloads wait, 1 is stuck."
    assert waiting_text([stuck]) == " 1 workload is stuck."
    assert waiting_text([waiting]) == " 1 workload waits."
    assert waiting_text([]) == ""


def test_the_last_hour_is_drawn_while_nothing_moves() -> None:
    console = new_console()
    fill(console)
    put_move(console, "old", "Rebalance", -timedelta(hours=3), timedelta(seconds=5))
    put_move(console, "late", "Rebalance", timedelta(), timedelta(seconds=5))
    assert moves(PageContext(console.model, NOW))["hour_flows"] == []  # a move is in progress
    console.model.put_move("shop/m1", None)
    found = moves(PageContext(console.model, NOW))["hour_flows"]
    assert [(flow.source, flow.target, flow.replicas) for flow in found] == [("web-c2", "web-c1", 1)]


def test_move_of_the_last_seconds_is_on_the_axis() -> None:
    console = new_console()
    fill(console)
    put_move(console, "new", "ClusterFailover", timedelta(seconds=-2), timedelta(seconds=1))
    for second in range(60):
        context = PageContext(console.model, NOW + timedelta(seconds=second))
        for row in move_rows(list(console.model.latest_moves(None)), context):
            start, end, now = row["_axis"]
            assert start <= row["move"].started <= now <= end
