"""The writer thread runs jobs in order, calls back in the loop, and ends with its owner."""

import asyncio
import gc
import threading

import pytest

from trimtab.store.writer_thread import Scribe


def fail() -> None:
    raise LookupError("no such page")


def test_jobs_run_in_order_and_callbacks_run_in_the_loop() -> None:
    async def scenario() -> tuple[list[str], set[int]]:
        writer, done, threads = Scribe(), list[str](), set[int]()
        for name in "abc":
            writer.do(lambda name=name: done.append(name), lambda _: threads.add(threading.get_ident()))
        await writer.done(lambda: done.append("last"))
        writer.stop()
        return done, threads

    assert asyncio.run(scenario()) == (["a", "b", "c", "last"], {threading.get_ident()})


def test_failed_job_raises_in_its_caller_and_the_next_job_runs() -> None:
    async def scenario() -> list[str]:
        writer, done = Scribe(), list[str]()
        with pytest.raises(LookupError, match="no such page"):
            await writer.done(fail)
        await writer.done(lambda: done.append("next"))
        writer.stop()
        return done

    assert asyncio.run(scenario()) == ["next"]


def test_cancelled_caller_does_not_affect_later_jobs() -> None:
    async def scenario() -> list[str]:
        writer, done, may_end = Scribe(), list[str](), threading.Event()
        waiting = asyncio.ensure_future(writer.done(lambda: done.append("slow") if may_end.wait(10) else None))
        await asyncio.sleep(0)
        waiting.cancel()
        may_end.set()
        await writer.done(lambda: done.append("next"))
        writer.stop()
        return done

    assert asyncio.run(scenario()) == ["slow", "next"]


def test_closed_loop_does_not_end_the_thread() -> None:
    may_end = threading.Event()

    async def submit_only(writer: Scribe) -> None:
        writer.do(lambda: may_end.wait(10) and None, print)

    async def run_again(writer: Scribe) -> str:
        await writer.done(lambda: None)
        return "answered"

    writer = Scribe()
    asyncio.run(submit_only(writer))
    may_end.set()
    assert asyncio.run(run_again(writer)) == "answered"
    writer.stop()


def test_unreferenced_writer_ends_its_thread() -> None:
    writer = Scribe()
    thread = writer._thread
    del writer
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
