import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from store.test_backup import MAPS, frames_of, value, write
from store.test_sqlite import copy_files
from trimtab import errors
from trimtab.store.inspection import inspect_directory
from trimtab.store.restore import REVISION_GAP, accept_loss, is_complete, restore_backup
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey

Open = Callable[..., Store]


async def backed_up(store: Store, path: Path) -> Path:
    await store.commit([PutKey(f"{MAPS}{n}", value(str(n))) for n in range(5)])
    write(path, b"".join(await frames_of(store)), 1 << 20)
    return path


async def test_restored_store_has_the_objects_above_all_earlier_revisions(on_disk: Open, tmp_path: Path) -> None:
    live = on_disk(directory=tmp_path / "live")
    backup = await backed_up(live, tmp_path / "backup")
    expected = live.list("/").entries
    for n in range(50):  # handed out after the backup
        await live.commit([PutKey(f"{MAPS}later", str(n).encode())])
    await live.close()
    restored = restore_backup(backup, tmp_path / "live", replace=True)
    store = on_disk(directory=tmp_path / "live")
    assert store.list("/").entries == expected
    assert store.revision == restored.revision > live.revision + REVISION_GAP - 1
    for known in (2, live.revision, restored.revision - 1):
        with pytest.raises(errors.Expired):
            store.watch("/", known)
    watch = store.watch("/")
    entry = await store.create(f"{MAPS}new", b"")
    assert entry.mod_revision == restored.revision + 1
    assert [event.key for event in await watch.next()] == [f"{MAPS}new"]
    await store.close()
    assert restored.kept is not None
    assert on_disk(directory=restored.kept).get(f"{MAPS}later") is not None  # the replaced store still opens


async def test_revisions_do_not_repeat_when_one_backup_is_restored_twice(
    on_disk: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = await backed_up(on_disk(directory=tmp_path / "live"), tmp_path / "backup")
    revisions = []
    for day in range(3):
        monkeypatch.setattr("time.time_ns", lambda day=day: (2_000_000_000 + 86_400 * day) * 1_000_000_000)
        revisions.append(restore_backup(backup, tmp_path / f"new-{day}").revision)
    assert revisions == sorted(set(revisions))
    monkeypatch.setattr("time.time_ns", lambda: 0)  # a wrong clock
    assert restore_backup(backup, tmp_path / "new-0", replace=True).revision > revisions[0]


async def test_existing_store_and_running_server_are_refused(on_disk: Open, tmp_path: Path) -> None:
    live = on_disk(directory=tmp_path / "live")
    backup = await backed_up(live, tmp_path / "backup")
    for replace in (False, True):
        with pytest.raises(errors.StoreError, match=r"a server runs on .*stop the server first"):
            restore_backup(backup, tmp_path / "live", replace=replace)
    with pytest.raises(errors.StoreError, match="a server runs on"):
        accept_loss(tmp_path / "live")
    await live.close()
    with pytest.raises(errors.StoreError, match="has a store already: add --force"):
        restore_backup(backup, tmp_path / "live")
    assert on_disk(directory=tmp_path / "live").revision == live.revision


@pytest.mark.parametrize("damage", ["noise", "truncated", "value", "text"])
async def test_damaged_backup_changes_nothing(on_disk: Open, tmp_path: Path, damage: str) -> None:
    live = on_disk(directory=tmp_path / "live")
    backup = await backed_up(live, tmp_path / "backup")
    await live.close()
    content = bytearray(backup.read_bytes())
    match damage:
        case "noise":
            content[32_768:42_768] = os.urandom(10_000)
        case "truncated":
            del content[len(content) // 2 :]
        case "value":
            content = content.replace(b'"name":"3"', b'"name":"4"')
        case "text":
            content = bytearray(b"hello " * 100)
    backup.write_bytes(content)
    before = {path.name: path.read_bytes() for path in (tmp_path / "live").iterdir()}
    with pytest.raises(errors.StoreError, match=r"damaged|not a Trimtab store"):
        restore_backup(backup, tmp_path / "live", replace=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "live").iterdir()} == before


async def test_damaged_store_is_replaced_and_kept(on_disk: Open, tmp_path: Path) -> None:
    backup = await backed_up(on_disk(directory=tmp_path / "live"), tmp_path / "backup")
    data = tmp_path / "data"
    data.mkdir()
    (data / "store.db").write_bytes(b"x" * 5000)
    (data / "store.db-wal").write_bytes(b"y" * 5000)
    kept = restore_backup(backup, data, replace=True).kept
    assert kept is not None
    assert {path.name for path in kept.iterdir()} == {"store.db", "store.db-wal"}
    assert on_disk(directory=data).count(MAPS) == 5
    assert stat.S_IMODE((data / "store.db").stat().st_mode) == 0o600


async def test_file_of_a_crashed_server_is_a_backup_too(on_disk: Open, tmp_path: Path) -> None:
    live = on_disk(directory=tmp_path / "live")
    await live.commit([PutKey(f"{MAPS}{n}", value(str(n))) for n in range(5)])
    await live.commit([DeleteKey(f"{MAPS}1"), PutKey(f"{MAPS}2", value("2", 9))])
    crashed = copy_files(tmp_path / "live", tmp_path / "crashed")  # everything is in the write-ahead log
    restore_backup(crashed / "store.db", tmp_path / "new")
    store = on_disk(directory=tmp_path / "new")
    assert store.list("/").entries == live.list("/").entries
    await store.close()
    connection = sqlite3.connect(tmp_path / "new" / "store.db")
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (4,)  # no history that is never compacted
    connection.close()


@pytest.mark.parametrize("step", ["copy", "mark", "move", "rename"])
async def test_restore_that_is_interrupted_leaves_no_store_that_starts_with_the_wrong_data(
    on_disk: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    live = on_disk(directory=tmp_path / "live")
    backup = await backed_up(live, tmp_path / "backup")
    await live.create(f"{MAPS}later", value("later"))
    await live.close()

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    target = {
        "copy": "trimtab.store.restore._copy_store",
        "mark": "trimtab.store.restore._replace_marker",
        "move": "pathlib.Path.rename",
        "rename": "pathlib.Path.replace",
    }[step]
    with monkeypatch.context() as patch:
        if step == "rename":
            replace, calls = Path.replace, []

            def replace_once(self: Path, other: Path) -> Path:  # the marker is replaced first, then the store
                calls.append(other)
                return replace(self, other) if len(calls) == 1 else interrupt()

            patch.setattr(target, replace_once)
        else:
            patch.setattr(target, interrupt)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(backup, tmp_path / "live", replace=True)
    if step in ("copy", "mark"):
        store = on_disk(directory=tmp_path / "live")
        assert store.get(f"{MAPS}later") is not None
        await store.close()
    else:
        with pytest.raises(errors.StoreError, match="were acknowledged"):
            on_disk(directory=tmp_path / "live")
    restore_backup(backup, tmp_path / "live", replace=True)
    assert on_disk(directory=tmp_path / "live").count(MAPS) == 5


@pytest.mark.parametrize("what", ["log", "marker", "store"])
async def test_accepted_loss_lets_the_store_start_above_the_lost_revisions(
    on_disk: Open, tmp_path: Path, what: str
) -> None:
    live = on_disk(directory=tmp_path / "live")
    await backed_up(live, tmp_path / "backup")
    await live.close()
    live = on_disk(directory=tmp_path / "live")
    await live.create(f"{MAPS}lost", value("lost"))
    crashed = copy_files(tmp_path / "live", tmp_path / "crashed")
    if what != "marker":
        (crashed / "store.db-wal").unlink()
    if what == "store":
        (crashed / "store.db").unlink()
    if what == "marker":
        (crashed / "store.db-mark").unlink()
    assert not is_complete(crashed)
    with pytest.raises(errors.StoreError, match="accept-loss"):
        on_disk(directory=crashed)
    revision = accept_loss(crashed)
    assert revision > live.revision
    assert is_complete(crashed)
    assert inspect_directory(crashed).problems == ()
    store = on_disk(directory=crashed)
    assert store.revision == revision == RevisionMarker(crashed).read()
    assert store.count(MAPS) == {"log": 5, "marker": 6, "store": 0}[what]
    with pytest.raises(errors.Expired):
        store.watch("/", live.revision)
    await asyncio.sleep(0)


async def test_restored_store_is_above_what_the_marker_of_a_lost_one_says(on_disk: Open, tmp_path: Path) -> None:
    """The file is gone, but clients know its revisions."""
    backup = await backed_up(on_disk(directory=tmp_path / "live"), tmp_path / "backup")
    lost = 10**15
    directory = tmp_path / "lost"
    directory.mkdir()
    RevisionMarker(directory).replace(lost)
    assert restore_backup(backup, directory, replace=True).revision > lost
