"""While writes fail, a store says so once and finds out itself when they work again."""

import asyncio
from collections.abc import Callable

import pytest

from trimtab import errors
from trimtab.store.store import Store
from trimtab.store.write_faults import WriteFaults

Open = Callable[..., Store]
FULL = errors.StorageFull("no space left")


def pod(name: str) -> str:
    return f"/registry//pods/default/{name}"


async def test_one_try_is_planned_however_many_writes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.store.write_faults.SECONDS_BETWEEN_TRIES", 0.0)
    faults, tries = WriteFaults(), list[str]()
    for _ in range(3):
        faults.report(FULL, lambda: tries.append("try"))
    assert faults.current is FULL
    await asyncio.sleep(0.01)
    assert tries == ["try"]


async def test_nothing_is_tried_after_a_successful_write_or_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.store.write_faults.SECONDS_BETWEEN_TRIES", 0.0)
    tries = list[str]()
    works_again, stopped, stopped_before = WriteFaults(), WriteFaults(), WriteFaults()
    works_again.report(FULL, lambda: tries.append("works again"))
    works_again.clear()
    stopped.report(FULL, lambda: tries.append("stopped"))
    stopped.stop()
    stopped_before.stop()
    stopped_before.report(FULL, lambda: tries.append("stopped before"))
    await asyncio.sleep(0.01)
    assert tries == []
    assert works_again.current is None


async def test_full_store_logs_one_line_and_finds_out_itself_when_it_can_write_again(
    on_disk: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trimtab.store.write_faults.SECONDS_BETWEEN_TRIES", 0.01)
    store = on_disk()
    journal = store._journal
    assert journal is not None
    tries = 0

    def refuse(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise errors.StorageFull("no space left to write")

    with monkeypatch.context() as full:
        full.setattr(journal, "write", refuse)
        full.setattr(journal, "try_write", refuse)
        for _ in range(3):
            with pytest.raises(errors.StorageFull, match="no space left"):
                await store.create(pod("a"), b"")
        while tries < 6:  # noqa: ASYNC110 - nobody else writes
            await asyncio.sleep(0.01)
        assert store.fault is not None
    while store.fault is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert [record.message for record in caplog.records] == [
        "writes are refused: no space left to write",
        "writes work again",
    ]
    revision = store.revision
    assert (await store.create(pod("a"), b"")).mod_revision == revision + 1
