import asyncio
import logging

import pytest

from trimtab.tasks import LoggedFailure, stop_tasks, wait_for_tasks

log = logging.getLogger("trimtab.test")


def test_failure_of_the_block_is_logged_and_known(caplog: pytest.LogCaptureFixture) -> None:
    with LoggedFailure(log, "%s failed", "this") as attempt:
        raise ZeroDivisionError
    assert isinstance(attempt.failure, ZeroDivisionError)
    assert "this failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_block_without_a_failure_has_none_after_one_that_had() -> None:
    guard = LoggedFailure(log, "failed")
    with guard:
        raise ZeroDivisionError
    with guard:
        pass
    assert guard.failure is None


def test_cancellation_is_passed_on() -> None:
    with pytest.raises(asyncio.CancelledError), LoggedFailure(log, "failed"):
        raise asyncio.CancelledError


def test_stopped_tasks_are_cancelled_and_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def run() -> None:
        endless = asyncio.get_running_loop().create_task(asyncio.Event().wait())
        failing = asyncio.get_running_loop().create_task(fail(), name="the failing one")
        await asyncio.sleep(0)
        await stop_tasks([endless, failing], log)
        assert endless.cancelled()

    asyncio.run(run())
    assert "a task failed: the failing one" in caplog.text


def test_waiting_for_tasks_cancels_none() -> None:
    async def run() -> None:
        done = []
        task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        task.add_done_callback(done.append)
        await wait_for_tasks([task], log)
        await wait_for_tasks([], log)
        assert not task.cancelled()

    asyncio.run(run())
