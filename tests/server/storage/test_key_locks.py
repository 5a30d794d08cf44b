"""Locks per key."""

import asyncio
import contextlib

from trimtab.server.storage.key_locks import KeyLocks


def test_only_users_of_the_same_key_wait_for_each_other() -> None:
    async def scenario() -> list[str]:
        locks, steps = KeyLocks(), list[str]()

        async def use(key: str, name: str) -> None:
            async with locks.lock(key):
                steps.append(f"{name} enters")
                await asyncio.sleep(0)
                steps.append(f"{name} leaves")

        await asyncio.gather(use("a", "first"), use("a", "second"), use("b", "other"))
        assert not locks._locks
        return steps

    steps = asyncio.run(scenario())
    assert steps.index("first leaves") < steps.index("second enters")
    assert steps.index("other enters") < steps.index("first leaves")


def test_lock_is_released_after_an_error() -> None:
    async def scenario() -> str:
        locks = KeyLocks()
        with contextlib.suppress(LookupError):
            async with locks.lock("a"):
                raise LookupError
        async with locks.lock("a"):
            return "locked again"

    assert asyncio.run(scenario()) == "locked again"
