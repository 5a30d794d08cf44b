"""What a store does while writes fail: it says so in the log, and finds out itself when they work again."""

import asyncio
import logging
from collections.abc import Callable

from trimtab import errors

SECONDS_BETWEEN_TRIES = 2.0
"""While writes fail, how often the store finds out whether they work again; nobody else may write meanwhile."""
SECONDS_BETWEEN_LOG_LINES = 60.0
log = logging.getLogger("trimtab.store")


class WriteFaults:
    """Why the last write failed, and the timer of the next try."""

    def __init__(self) -> None:
        self.current: errors.StoreError | None = None
        """None again after a successful write."""
        self._next_try: asyncio.TimerHandle | None = None
        self._stopped = False
        self._logged_at: float | None = None
        self._is_logged = False

    def report(self, fault: errors.StoreError, try_again: Callable[[], None]) -> None:
        """Log the fault, not more than once a minute, and try again later whether or not somebody writes."""
        self.current = fault
        loop = asyncio.get_running_loop()
        if self._logged_at is None or loop.time() - self._logged_at >= SECONDS_BETWEEN_LOG_LINES:
            self._logged_at, self._is_logged = loop.time(), True
            log.error("writes are refused: %s", fault)
        if self._next_try is None and not self._stopped:
            self._next_try = loop.call_later(SECONDS_BETWEEN_TRIES, self._on_timer, try_again)

    def clear(self) -> None:
        """A write was successful."""
        if self._is_logged:
            log.warning("writes work again")
        self.current, self._is_logged = None, False

    def stop(self) -> None:
        """Try nothing any more."""
        self._stopped = True
        if self._next_try is not None:
            self._next_try.cancel()

    def _on_timer(self, try_again: Callable[[], None]) -> None:
        self._next_try = None
        if self.current is not None:
            try_again()
