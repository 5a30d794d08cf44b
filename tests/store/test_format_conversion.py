"""A store of an older format is converted when it is opened; also in memory alone, when there is no room on the disk."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab import errors
from trimtab.store.format_conversion import convert_to_current_format
from trimtab.store.index import MemoryIndex, Retention
from trimtab.store.sqlite import FORMAT, CommitBatch, Journal
from trimtab.store.store import Store

KEY = "/registry//pods/default/a"


def mark_longer(key: str, value: bytes) -> bytes:
    return value + b" converted" if key == KEY else value


async def make_older_store(directory: Path) -> None:
    store = Store.open(directory)
    await store.create(KEY, b"old")
    await store.create(KEY + "b", b"as it is")
    await store.close()
    with contextlib.closing(sqlite3.connect(directory / "store.db")) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT - 1}")


async def test_only_changed_values_take_a_revision(tmp_path: Path) -> None:
    await make_older_store(tmp_path)
    store = Store.open(tmp_path, conversions={FORMAT - 1: mark_longer})
    assert [entry.value for entry in store.list("/registry/").entries] == [b"old converted", b"as it is"]
    assert store.revision == 4
    await store.close()


async def test_current_format_is_not_converted(on_disk: Callable[..., Store]) -> None:
    store = on_disk()
    assert store._journal is not None
    assert convert_to_current_format(store._index, store._journal, {}) is None


async def test_conversion_without_room_is_in_memory_and_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_older_store(tmp_path)
    journal, index = Journal(tmp_path), MemoryIndex(Retention())
    index.restore(journal.rows(), journal.compacted_revision())

    def refuse(batch: CommitBatch, revision: int) -> None:
        raise errors.StorageFull("no space left")

    monkeypatch.setattr(journal, "convert", refuse)
    unwritten = convert_to_current_format(index, journal, {FORMAT - 1: mark_longer})
    journal.close()
    assert unwritten is not None
    assert (unwritten.batch.format, unwritten.revision) == (FORMAT, 3)
    assert index.entries[KEY].value == b"old converted"
