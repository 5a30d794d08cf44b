import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from trimtab import errors
from trimtab.store.backup import CHUNK_BYTES, BackupReader, StoreFile, stream_backup
from trimtab.store.inspection import inspect_store
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey

MAPS = "/registry/core/configmaps/default/"


def value(name: str, size: int = 0) -> bytes:
    return b'{"metadata":{"name":"%b"},"data":{"k":"%b"}}' % (name.encode(), b"x" * size)


async def frames_of(store: Store) -> list[bytes]:
    return [frame async for frame in stream_backup(*store.snapshot())]


def write(path: Path, stream: bytes, size: int) -> None:
    """Read the stream in chunks of this size into a file."""
    reader = BackupReader()
    with StoreFile(path) as file:
        for start in range(0, len(stream), size):
            file.add(reader.feed(stream[start : start + size]))
        file.set_revision(reader.finish().revision)


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 30])
async def test_backup_has_the_state_of_one_moment_whatever_the_chunks(store: Store, tmp_path: Path, size: int) -> None:
    await store.commit([PutKey(f"{MAPS}{n}", value(str(n), n)) for n in range(30)])
    await store.commit([PutKey(f"{MAPS}1", value("1", 99)), DeleteKey(f"{MAPS}2")])
    expected, revision = store.list("/"), store.revision
    frames = stream_backup(*store.snapshot())
    stream = await anext(frames)
    await store.commit([DeleteKey(f"{MAPS}{n}") for n in range(20)])  # after the backup began
    stream += b"".join([frame async for frame in frames])
    path = tmp_path / "backup"
    write(path, stream, size)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    report = inspect_store(path)
    assert (report.revision, report.objects, report.problems) == (revision, 29, ())
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT key, value, revision, created FROM log ORDER BY key").fetchall()
    connection.close()
    entries = sorted(expected.entries, key=lambda entry: entry.key)
    assert rows == [(one.key, one.value, one.mod_revision, one.create_revision) for one in entries]


async def test_large_backup_is_sent_in_parts_and_other_tasks_run_between_them() -> None:
    store = Store()
    await store.commit([PutKey(f"{MAPS}{n}", value(str(n), 50_000)) for n in range(100)])
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(count_turns())
    frames = await frames_of(store)
    task.cancel()
    assert max(map(len, frames)) < CHUNK_BYTES + 60_000
    assert turns >= len(frames) - 3 >= 10


async def test_stream_that_ends_early_or_is_something_else_is_refused(tmp_path: Path) -> None:
    store = Store()
    await store.commit([PutKey(f"{MAPS}{n}", value(str(n), 50_000)) for n in range(20)])
    frames = await frames_of(store)
    assert len(frames) > 4
    stream = b"".join(frames)
    broken = [b"".join(frames[:-1]), stream[:-1], b"", frames[0], frames[0] + frames[-1], stream + b"x"]
    broken += [b"".join([*frames[:1], *frames[2:]]), b"<html>", b'{"kind":"Status"}', bytes(100), os.urandom(100)]
    for number, text in enumerate(broken):
        with pytest.raises(errors.StoreError, match=r"incomplete|did not send a backup"):
            write(tmp_path / str(number), text, 1000)


async def test_backup_of_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.store.backup.FORMAT", 99)
    frames = await frames_of(Store())
    monkeypatch.undo()
    with pytest.raises(errors.StoreError, match="has format 99, but this Trimtab reads"):
        BackupReader().feed(frames[0])


async def test_values_are_in_a_backup_as_they_are_in_the_store(store: Store) -> None:
    await store.commit([PutKey(f"{MAPS}a", value("a"))])
    stream = b"".join(
        [frame async for frame in stream_backup(*store.snapshot(), lambda key, _: f"sealed {key}".encode())]
    )
    (row,) = BackupReader().feed(stream)
    assert row.value == f"sealed {MAPS}a".encode()
