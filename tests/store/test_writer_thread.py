"""The thread that writes does one thing after the other, tells the loop, and ends with its owner."""

import asyncio
import gc
import threading

import pytest

from trimtab.store.writer_thread import Scribe


def fail() -> None:
    raise LookupError("no such page")


def test_work_is_done_in_order_and_its_end_is_told_in_the_loop() -> None:
    async def story() -> tuple[list[str], set[int]]:
        scribe, said, where = Scribe(), list[str](), set[int]()
        for name in "abc":
            scribe.do(lambda name=name: said.append(name), lambda _: where.add(threading.get_ident()))
        await scribe.done(lambda: said.append("last"))
        scribe.stop()
        return said, where

    assert asyncio.run(story()) == (["a", "b", "c", "last"], {threading.get_ident()})


def test_what_fails_is_raised_where_it_is_waited_for_and_the_next_is_done() -> None:
    async def story() -> list[str]:
        scribe, said = Scribe(), list[str]()
        with pytest.raises(LookupError, match="no such page"):
            await scribe.done(fail)
        await scribe.done(lambda: said.append("went on"))
        scribe.stop()
        return said

    assert asyncio.run(story()) == ["went on"]


def test_whoever_no_longer_waits_is_not_told_and_harms_nobody() -> None:
    async def story() -> list[str]:
        scribe, said, may_end = Scribe(), list[str](), threading.Event()
        waiting = asyncio.ensure_future(scribe.done(lambda: said.append("slow") if may_end.wait(10) else None))
        await asyncio.sleep(0)
        waiting.cancel()
        may_end.set()
        await scribe.done(lambda: said.append("next"))
        scribe.stop()
        return said

    assert asyncio.run(story()) == ["slow", "next"]


def test_a_closed_loop_does_not_end_the_thread() -> None:
    may_end = threading.Event()

    async def leave(scribe: Scribe) -> None:
        scribe.do(lambda: may_end.wait(10) and None, print)

    async def come_back(scribe: Scribe) -> str:
        await scribe.done(lambda: None)
        return "answered"

    scribe = Scribe()
    asyncio.run(leave(scribe))
    may_end.set()
    assert asyncio.run(come_back(scribe)) == "answered"
    scribe.stop()


def test_a_scribe_that_nobody_holds_ends_its_thread() -> None:
    scribe = Scribe()
    thread = scribe._thread
    del scribe
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
