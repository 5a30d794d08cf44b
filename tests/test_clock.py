"""Virtual time: waiting costs no real time, and a run that never ends is stopped."""

import asyncio
import contextlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from itertools import count

import pytest

from fake_clocks import SteppingClock
from fake_time import count_loop_turns_as_seconds
from trimtab.clock import EPOCH, LoopClock, SteadyClock, run_virtually, timestamp
from trimtab.errors import VirtualRunStuck


def test_virtual_hour_lasts_exactly_an_hour() -> None:
    async def run() -> timedelta:
        await asyncio.sleep(3600)
        return LoopClock().now() - EPOCH

    assert run_virtually(run(), timeout=900) == timedelta(hours=1)


def test_task_that_loops_without_waiting_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    count_loop_turns_as_seconds(monkeypatch, 0.001)

    async def run() -> None:
        await asyncio.sleep(7)
        for _ in count():
            await asyncio.sleep(0)

    with pytest.raises(
        VirtualRunStuck, match=r"stopped after 0\.2 seconds of real time; virtual time did not advance"
    ) as caught:
        run_virtually(run(), timeout=0.2)
    assert caught.value.at == 7


def test_task_that_waits_for_nothing_is_stopped() -> None:
    async def run() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualRunStuck):
        run_virtually(run(), timeout=0.2)


def test_task_that_waits_in_vain_while_time_advances_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    count_loop_turns_as_seconds(monkeypatch, 0.001)

    async def tick() -> None:
        for _ in count():
            await asyncio.sleep(1)

    async def run() -> None:
        await asyncio.get_running_loop().create_task(tick())

    with pytest.raises(VirtualRunStuck, match="virtual time advanced") as caught:
        run_virtually(run(), timeout=0.2)
    assert caught.value.at > 1


def test_stopped_task_can_clean_up() -> None:
    cleaned = []

    async def run() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(5)
            cleaned.append("all")

    with pytest.raises(VirtualRunStuck):
        run_virtually(run(), timeout=0.2)
    assert cleaned == ["all"]


def test_thread_wakes_a_loop_without_timers() -> None:
    async def run() -> str:
        return await asyncio.to_thread(lambda: "awake")

    assert run_virtually(run(), timeout=900) == "awake"


BLOCKED = """
from trimtab import clock
clock.CLOSING_SECONDS = 0.1
async def block():
    while True: pass
clock.run_virtually(block(), timeout=3)
"""


def test_task_that_never_returns_to_the_loop_ends_the_process_with_its_stack() -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        ended = subprocess.run(
            [sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=900, check=False
        )
        assert ended.returncode == 1
        assert 'File "<string>", line 5 in block' in ended.stderr
        return
    pytest.fail("the process did not end")


def test_timestamp_is_in_whole_seconds_of_utc() -> None:
    moment = datetime(2030, 1, 1, 1, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2029-12-31T23:59:59Z"


def test_timestamp_before_1970_is_rounded_down() -> None:
    assert timestamp(datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)) == "1969-12-31T23:59:58Z"


def test_steady_clock_goes_on_evenly_when_the_other_clock_is_set() -> None:
    async def scenario() -> None:
        wall = SteppingClock()
        steady = SteadyClock(wall)
        began = steady.now()
        assert began == wall.now()
        for offset in (timedelta(days=100), timedelta(days=-100)):
            wall.offset = offset
            await asyncio.sleep(10)
        assert steady.now() - began == timedelta(seconds=20)

    run_virtually(scenario())
