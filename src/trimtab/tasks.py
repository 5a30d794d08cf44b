"""Tasks and callbacks of which one may fail without the others: the failure is always logged."""

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self


class LoggedFailure:
    """A context that logs any exception of its block and goes on: for what must outlive a bug.

    This is one of the two places that swallow any exception. The other turns it into a response
    (`server/http/asgi.py`). Cancellation is passed on.
    """

    __slots__ = ("_arguments", "_log", "_message", "_names", "failure")

    def __init__(self, log: logging.Logger, message: str, *arguments: Any, names: tuple[str, ...] = ()) -> None:
        """`message` and `arguments` say what failed; `names` are those of the arguments as fields of the log line."""
        self._log = log
        self._message = message
        self._arguments = arguments
        self._names = names
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        self.failure = None
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        self.failure = error
        fields = {name: str(value) for name, value in zip(self._names, self._arguments, strict=False)}
        self._log.error(self._message, *self._arguments, exc_info=error, extra=fields)
        return True


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]], log: logging.Logger) -> None:
    """Cancel the tasks and wait until they have ended; log those that have failed."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await wait_for_tasks(tasks, log)


async def wait_for_tasks(tasks: Iterable[asyncio.Task[Any]], log: logging.Logger) -> None:
    """Wait until the tasks have ended; log those that have failed."""
    tasks = list(tasks)
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("a task failed: %s", task.get_name(), exc_info=failure)
