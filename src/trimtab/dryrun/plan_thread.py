"""Computes plans of many users in one thread, so that the event loop goes on and nobody takes all processors or threads."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from trimtab.errors import TooManyRequests

MAX_PLANS = 16
"""Plans that wait or are computed."""
MAX_PLANS_OF_USER = 4
RETRY_SECONDS = 5
_SWITCH_SECONDS = 0.001
"""How long the thread keeps Python's lock when the event loop wants it."""
Result = TypeVar("Result")


class PlanThread:
    """One thread, and how many plans each user has in it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "plans", initializer=partial(sys.setswitchinterval, _SWITCH_SECONDS))
        self._plans: Counter[str] = Counter()

    def count(self) -> int:
        """Plans that wait or are computed."""
        return self._plans.total()

    async def run(self, user: str, function: Callable[..., Result], *arguments: object) -> Result:
        """The result of the function; raises TooManyRequests while too many plans are wanted, in all or by this user."""
        if self.count() >= MAX_PLANS or self._plans[user] >= MAX_PLANS_OF_USER:
            raise TooManyRequests("too many plans are being made: try again later", retry_after=RETRY_SECONDS)
        self._plans[user] += 1
        loop, future = asyncio.get_running_loop(), self._thread.submit(function, *arguments)
        future.add_done_callback(partial(self._tell_done, loop, user))
        return await asyncio.wrap_future(future)

    def _tell_done(self, loop: asyncio.AbstractEventLoop, user: str, _: "Future[Result]") -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._end, user)

    def _end(self, user: str) -> None:
        self._plans -= Counter({user: 1})  # a user without plans is forgotten
