"""The writer thread runs jobs in order, calls back in the loop, and ends with its owner."""

import asyncio
import gc
import threading

import pytest

from trimtab.store.writer_thread import WriterThread


def fail() -> None:
    raise LookupError("no such page")


def test_jobs_run_in_order_and_callbacks_run_in_the_loop() -> None:
    async def scenario() -> tuple[list[str], set[int]]:
        writer, done, threads = WriterThread(), list[str](), set[int]()
        for name in "abc":
            writer.submit(lambda name=name: done.append(name), lambda _: threads.add(threading.get_ident()))
        await writer.run(lambda: done.append("last"))
        writer.stop()
        return done, threads

    assert asyncio.run(scenario()) == (["a", "b", "c", "last"], {threading.get_ident()})


def test_failed_job_raises_in_its_caller_and_the_next_job_runs() -> None:
    async def scenario() -> list[str]:
        writer, done = WriterThread(), list[str]()
        with pytest.raises(LookupError, match="no such page"):
            await writer.run(fail)
        await writer.run(lambda: done.append("next"))
        writer.stop()
        return done

    assert asyncio.run(scenario()) == ["next"]


def test_cancelled_caller_does_not_affect_later_jobs() -> None:
    async def scenario() -> list[str]:
        writer, done, may_end = WriterThread(), list[str](), threading.Event()
        waiting = asyncio.ensure_future(writer.run(lambda: done.append("slow") if may_end.wait(10) else None))
        await asyncio.sleep(0)
        waiting.cancel()
        may_end.set()
        await writer.run(lambda: done.append("next"))
        writer.stop()
        return done

    assert asyncio.run(scenario()) == ["slow", "next"]


def test_closed_loop_does_not_end_the_thread() -> None:
    may_end = threading.Event()

    async def submit_only(writer: WriterThread) -> None:
        writer.submit(lambda: may_end.wait(10) and None, print)

    async def run_again(writer: WriterThread) -> str:
        await writer.run(lambda: None)
        return "answered"

    writer = WriterThread()
    asyncio.run(submit_only(writer))
    may_end.set()
    assert asyncio.run(run_again(writer)) == "answered"
    writer.stop()


def test_unreferenced_writer_ends_its_thread() -> None:
    writer = WriterThread()
    thread = writer._thread
    del writer
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
