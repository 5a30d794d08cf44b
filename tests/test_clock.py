"""Virtual time passes at no cost, and nothing on it can hang for ever without anybody noticing."""

import asyncio
import contextlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from itertools import count

import pytest

from trimtab.clock import EPOCH, LoopClock, run_virtually, timestamp
from trimtab.errors import Stuck


def test_an_idle_hour_lasts_exactly_an_hour() -> None:
    async def story() -> timedelta:
        await asyncio.sleep(3600)
        return LoopClock().now() - EPOCH

    assert run_virtually(story(), patience=60) == timedelta(hours=1)


def test_what_is_done_over_and_over_at_one_moment_is_given_up() -> None:
    async def story() -> None:
        await asyncio.sleep(7)
        for _ in count():
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match=r"no end after 0\.2 seconds on the wall clock; its clock stands still") as caught:
        run_virtually(story(), patience=0.2)
    assert caught.value.at == 7


def test_what_waits_for_nobody_is_given_up() -> None:
    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run_virtually(story(), patience=0.2)


def test_what_waits_in_vain_while_time_goes_on_is_given_up() -> None:
    async def beating() -> None:
        for _ in count():
            await asyncio.sleep(1)

    async def story() -> None:
        heart = asyncio.get_running_loop().create_task(beating())
        await heart

    with pytest.raises(Stuck, match="its clock goes on") as caught:
        run_virtually(story(), patience=0.2)
    assert caught.value.at > 1


def test_what_is_given_up_may_clear_up_after_itself() -> None:
    cleared = []

    async def story() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(5)
            cleared.append("all")

    with pytest.raises(Stuck):
        run_virtually(story(), patience=0.2)
    assert cleared == ["all"]


def test_a_thread_can_still_wake_a_loop_that_has_nothing_to_leap_to() -> None:
    async def story() -> str:
        return await asyncio.to_thread(lambda: "awake")

    assert run_virtually(story(), patience=60) == "awake"


BLOCKED = """
from trimtab import clock
clock.CLOSING_SECONDS = 0.1
async def story():
    while True: pass
clock.run_virtually(story(), patience=0.2)
"""


def test_a_step_that_never_returns_ends_the_process_and_says_where() -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        ended = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 1
        assert 'File "<string>", line 5 in story' in ended.stderr
        return
    pytest.fail("it went on for ever")


def test_a_time_is_written_in_whole_seconds_of_utc() -> None:
    moment = datetime(2030, 1, 1, 1, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2029-12-31T23:59:59Z"


def test_a_time_before_1970_is_cut_and_not_rounded_up() -> None:
    assert timestamp(datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)) == "1969-12-31T23:59:58Z"
