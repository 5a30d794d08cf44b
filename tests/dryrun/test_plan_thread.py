"""Plans of one user do not keep others waiting for ever, and unfinished ones are counted."""

import asyncio
import threading

import pytest

from trimtab.dryrun.plan_thread import MAX_PLANS, MAX_PLANS_OF_USER, PlanThread
from trimtab.errors import TooManyRequests


def test_plans_of_a_user_and_of_all_users_are_limited() -> None:
    async def run() -> None:
        thread, gate = PlanThread(), threading.Event()
        running = [
            asyncio.ensure_future(thread.run(f"user-{number // MAX_PLANS_OF_USER}", gate.wait))
            for number in range(MAX_PLANS)
        ]
        await asyncio.sleep(0)
        for user in ("user-0", "another"):
            with pytest.raises(TooManyRequests):
                await thread.run(user, int)
        gate.set()
        await asyncio.gather(*running)
        await asyncio.sleep(0)
        assert await thread.run("another", lambda: 7) == 7

    asyncio.run(run())


def test_user_whose_browser_went_away_gets_a_new_plan() -> None:
    async def run() -> None:
        thread, gate = PlanThread(), threading.Event()
        for _ in range(MAX_PLANS):
            waiting = asyncio.ensure_future(thread.run("user", gate.wait))
            await asyncio.sleep(0)
            waiting.cancel()
            gate.set()
            await asyncio.gather(waiting, return_exceptions=True)
            assert await thread.run("another", lambda: 7) == 7

    asyncio.run(run())


def test_failure_of_a_plan_is_raised_and_not_counted() -> None:
    async def run() -> None:
        thread = PlanThread()
        for _ in range(2 * MAX_PLANS_OF_USER):
            with pytest.raises(ValueError, match="invalid literal"):
                await thread.run("user", int, "x")
            await asyncio.sleep(0)
        assert thread.count() == 0

    asyncio.run(run())
