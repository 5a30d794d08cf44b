"""A log that lost acknowledged writes is refused, whatever was lost; everything else opens."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from store.test_sqlite import PODS, copy_files, values
from trimtab import errors
from trimtab.store.index import Retention
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.store import Store
from trimtab.store.txn import PutKey

Open = Callable[..., Store]
LOST = r"ends at revision \d+, but writes up to revision 21 were acknowledged: .* Put the log back, or restore a backup"


async def write_and_crash(on_disk: Open, tmp_path: Path, checkpointed: int = 0) -> Path:
    """The files of a process that was killed after 20 writes, the first of them in the database file already."""
    store = on_disk(directory=tmp_path / "live")
    for n in range(20):
        if n == checkpointed and n:
            await store.close()
            store = on_disk(directory=tmp_path / "live")
        await store.commit([PutKey(f"{PODS}{n}", bytes(2000))])
    return copy_files(tmp_path / "live", tmp_path / "crashed")


@pytest.mark.parametrize("checkpointed", [0, 10])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "last frame", "corrupt"])
async def test_write_ahead_log_without_acknowledged_writes_is_refused_until_it_is_back(
    on_disk: Open, tmp_path: Path, checkpointed: int, damage: str
) -> None:
    crashed = await write_and_crash(on_disk, tmp_path, checkpointed)
    path, database = crashed / "store.db-wal", (crashed / "store.db").read_bytes()
    log = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "truncated":
            path.write_bytes(log[: len(log) // 2])
        case "last frame":
            path.write_bytes(log[:-1])
        case "corrupt":
            path.write_bytes(log[: len(log) // 2] + b"x" * 100 + log[len(log) // 2 + 100 :])
    damaged = path.read_bytes() if path.exists() else b""
    for _ in range(2):
        with pytest.raises(errors.StoreError, match=LOST) as refusal:
            on_disk(directory=crashed)
    assert "trimtab store check --accept-loss --data-dir" in str(refusal.value)
    if damage in ("missing", "empty"):
        assert (crashed / "store.db").read_bytes() == database
    else:
        assert (crashed / "store.db-wal.kept").read_bytes() == damaged
    path.write_bytes(log)
    assert on_disk(directory=crashed).count(PODS) == 20


@pytest.mark.parametrize("cut", [1, 5, 12, 19])
async def test_files_of_an_earlier_time_are_refused(on_disk: Open, tmp_path: Path, cut: int) -> None:
    store = on_disk(directory=tmp_path / "live")
    for n in range(20):
        if n == cut:
            earlier = copy_files(tmp_path / "live", tmp_path / "earlier")
        await store.commit([PutKey(f"{PODS}{n}", b"")])
    shutil.copy(tmp_path / "live" / "store.db-mark", earlier)
    with pytest.raises(errors.StoreError, match=LOST):
        on_disk(directory=earlier)


async def test_missing_store_is_not_created_anew(on_disk: Open, tmp_path: Path) -> None:
    crashed = await write_and_crash(on_disk, tmp_path)
    for path in (crashed / "store.db", crashed / "store.db-wal"):
        path.unlink()
    with pytest.raises(errors.StoreError, match=LOST):
        on_disk(directory=crashed)
    assert [path.name for path in crashed.iterdir()] == ["store.db-mark"]


@pytest.mark.parametrize("content", [None, b"", b"00000000000000000001 ffffffff\n"])
async def test_missing_or_damaged_marker_is_refused(on_disk: Open, tmp_path: Path, content: bytes | None) -> None:
    await on_disk().close()
    marker = tmp_path / "store.db-mark"
    marker.unlink() if content is None else marker.write_bytes(content)
    with pytest.raises(errors.StoreError, match=r"store.db-mark is missing or damaged.*--accept-loss --data-dir"):
        on_disk()


async def test_complete_stores_open(on_disk: Open, tmp_path: Path) -> None:
    """After a crash, after a clean end without a write-ahead log, as a copy, and with an old marker."""
    crashed = await write_and_crash(on_disk, tmp_path, checkpointed=10)
    store = on_disk(directory=crashed)
    assert store.revision == 21
    await store.close()
    assert not (crashed / "store.db-wal").exists()
    copied = shutil.copytree(crashed, tmp_path / "copied")
    RevisionMarker(copied).replace(7)  # not synced before a power loss
    for directory in (crashed, copied):
        store = on_disk(directory=directory)
        assert len(values(store)) == 20
        await store.close()
        assert RevisionMarker(directory).read() == 21


async def test_marker_follows_compaction_and_large_groups(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk(Retention(revisions=10))
    for n in range(30):
        await store.commit([PutKey(f"{PODS}{k}", str(n).encode()) for k in range(100)])
        assert RevisionMarker(tmp_path).read() == store.revision
    store.compact(store.revision)
    await store.delete(PODS + "1")
    store.compact(store.revision)
    await store.create(PODS + "1", b"")
    await store.delete(PODS + "1")
    store.compact(store.revision)  # the newest revision has no row any more
    revision = store.revision
    await store.close()
    assert on_disk().revision == revision == RevisionMarker(tmp_path).read()
