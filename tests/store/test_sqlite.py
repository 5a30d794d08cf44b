import asyncio
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimtab import errors
from trimtab.store.index import Retention
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey

PODS = "/registry//pods/default/"
Open = Callable[..., Store]


def run_python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def connection(store: Store) -> sqlite3.Connection:
    assert store._journal is not None
    return store._journal._connection


def copy_files(source: Path, target: Path) -> Path:
    """A copy of the files as a crash would leave them now; another process copies, because this one holds locks."""
    target.mkdir()
    subprocess.run(["cp", *map(str, source.glob("store.db*")), str(target)], check=True)
    return target


def values(store: Store) -> dict[str, bytes]:
    return {entry.key.removeprefix(PODS): entry.value for entry in store.list(PODS).entries}


async def test_files_are_readable_only_by_the_user(on_disk: Open, tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    store = on_disk(directory=directory)
    await store.create(PODS + "a", b"")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())}
    assert modes == {"data": 0o700, "store.db": 0o600, "store.db-mark": 0o600, "store.db-wal": 0o600}


async def test_world_readable_file_becomes_private_on_open(on_disk: Open, tmp_path: Path) -> None:
    await on_disk().close()
    (tmp_path / "store.db").chmod(0o644)
    on_disk()
    assert stat.S_IMODE((tmp_path / "store.db").stat().st_mode) == 0o600


async def test_every_commit_is_synced(on_disk: Open) -> None:
    execute = connection(on_disk()).execute
    assert execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert execute("PRAGMA synchronous").fetchone() == (2,)


async def test_second_process_is_refused_and_changes_nothing(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk()
    await store.create(PODS + "a", b"")
    second = run_python(
        """
        import sys
        from pathlib import Path
        from trimtab import errors
        from trimtab.store.store import Store
        try:
            Store.open(Path(sys.argv[1]))
        except errors.StoreError as fault:
            print(fault)
        """,
        tmp_path,
    )
    assert "store.db is in use by another process: stop that one" in second.stdout, second.stderr
    with pytest.raises(errors.StoreError, match="in use"):
        on_disk()
    await store.create(PODS + "b", b"")
    await store.close()
    assert on_disk().count(PODS) == 2


@pytest.mark.parametrize("content", [b"# my notes\n" * 500, b"x", bytes(4096)])
async def test_file_that_is_not_a_database_is_refused_and_unchanged(
    on_disk: Open, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(errors.StoreError, match=r"is not a Trimtab store .*move it away") as refusal:
        on_disk()
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == content


async def test_database_of_another_program_is_refused_and_unchanged(on_disk: Open, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE log (id)")
    other.close()
    content = path.read_bytes()
    with pytest.raises(errors.StoreError, match="another program"):
        on_disk()
    assert path.read_bytes() == content


async def test_newer_format_is_refused(on_disk: Open, tmp_path: Path) -> None:
    await on_disk().close()
    newer = sqlite3.connect(tmp_path / "store.db")
    newer.execute("PRAGMA user_version = 3")
    newer.close()
    content = (tmp_path / "store.db").read_bytes()
    with pytest.raises(errors.StoreError, match=r"has format 3, but this Trimtab reads formats up to 2: use the Trim"):
        on_disk()
    assert (tmp_path / "store.db").read_bytes() == content


async def test_changed_value_on_disk_is_detected(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk()
    await store.create(PODS + "a", b"precious content")
    await store.close()
    path = tmp_path / "store.db"
    path.write_bytes(path.read_bytes().replace(b"precious", b"precioux"))
    with pytest.raises(errors.StoreError, match=r"is damaged .*revision 2 .*restore a backup"):
        on_disk()


@pytest.mark.parametrize("damage", ["truncate", "zero", "noise"])
async def test_damaged_file_is_refused_and_unchanged(on_disk: Open, tmp_path: Path, damage: str) -> None:
    store = on_disk()
    await store.commit([PutKey(f"{PODS}{n}", os.urandom(3000)) for n in range(100)])
    await store.close()
    path = tmp_path / "store.db"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    match damage:
        case "truncate":
            del content[middle:]
        case "zero":
            content[middle : middle + 8192] = bytes(8192)
        case "noise":
            content[middle : middle + 8192] = os.urandom(8192)
    path.write_bytes(content)
    with pytest.raises(errors.StoreError, match="is damaged"):
        on_disk()
    assert path.read_bytes() == content


async def test_write_ahead_log_without_its_database_is_kept(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk(directory=tmp_path / "live")
    await store.create(PODS + "a", b"")
    crashed = copy_files(tmp_path / "live", tmp_path / "crashed")
    (crashed / "store.db").unlink()
    log = (crashed / "store.db-wal").read_bytes()
    for _ in range(2):
        with pytest.raises(errors.StoreError, match=r"is damaged .*it is empty, but its log store.db-wal is not"):
            on_disk(directory=crashed)
    assert (crashed / "store.db-wal").read_bytes() == log


async def test_deletion_row_of_a_missing_key_is_damage(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk()
    await store.create(PODS + "a", b"")
    await store.delete(PODS + "a")
    await store.close()
    with sqlite3.connect(tmp_path / "store.db") as other:
        other.execute("DELETE FROM log WHERE revision = 2")
    other.close()
    with pytest.raises(errors.StoreError, match=r"is damaged .*which does not exist"):
        on_disk()


async def test_data_directory_that_is_a_file_is_refused(on_disk: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StoreError, match="cannot be opened for writing"):
        on_disk(directory=tmp_path / "file")


@pytest.mark.parametrize("existing", [True, False])
async def test_directory_without_write_permission_is_refused(on_disk: Open, tmp_path: Path, existing: bool) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    if existing:
        await on_disk(directory=directory).close()
        (directory / "store.db").chmod(0o444)
    directory.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    outcome = run_python(
        """
        import os, sys
        from pathlib import Path
        from trimtab import errors
        from trimtab.store.store import Store
        if os.getuid() == 0:
            os.setuid(65534)  # root ignores permissions
        try:
            Store.open(Path(sys.argv[1]))
        except errors.StoreError as fault:
            print(fault)
        """,
        directory,
    )
    directory.chmod(0o755)
    assert "cannot be opened for writing" in outcome.stdout, outcome.stderr
    assert "make its directory writable" in outcome.stdout


async def test_full_disk_fails_writes_but_not_reads_until_space_is_freed(on_disk: Open) -> None:
    store = on_disk()
    await store.create(PODS + "kept", b"safe")
    connection(store).execute("PRAGMA max_page_count = 5")
    watch = store.watch(PODS)
    revision = store.revision

    outcomes = await asyncio.gather(
        *(store.create(f"{PODS}{n}", bytes(5000)) for n in range(20)), return_exceptions=True
    )
    assert all(isinstance(outcome, errors.StoreError) for outcome in outcomes)
    assert "no space left to write" in str(outcomes[0])
    assert store.fault is outcomes[0]
    assert (store.revision, values(store)) == (revision, {"kept": b"safe"})
    assert await watch.next(0) == []

    connection(store).execute("PRAGMA max_page_count = 1000000")
    entry = await store.create(PODS + "0", bytes(5000))
    assert entry.mod_revision == revision + 1
    assert store.fault is None
    assert [event.entry for event in await watch.next()] == [entry]
    await store.close()
    assert sorted(values(on_disk())) == ["0", "kept"]


async def test_compaction_frees_space_in_a_full_store(on_disk: Open) -> None:
    store = on_disk()
    await store.commit([PutKey(f"{PODS}{n}", bytes(20_000)) for n in range(20)])
    connection(store).execute("PRAGMA max_page_count = 1")  # SQLite reads it as: not beyond the current size
    with pytest.raises(errors.StoreError, match="no space left"):
        await store.create(PODS + "more", bytes(36_000))
    await store.commit([DeleteKey(f"{PODS}{n}") for n in range(3)])
    store.compact(store.revision)
    await store.create(PODS + "more", bytes(36_000))
    await store.close()
    assert on_disk().count(PODS) == 18


def test_write_beyond_a_file_size_limit_fails_and_the_store_recovers(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store.open(tmp_path)
        acknowledged = 0
        with pytest.raises(errors.StoreError, match=r"could not be written|no space left"):
            for acknowledged in range(1000):
                await store.create(f"{PODS}{acknowledged}", bytes(2000))
        assert 0 < acknowledged == store.count(PODS)
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        await store.create(PODS + "more", b"")
        await store.close()
        assert Store.open(tmp_path).count(PODS) == acknowledged + 1

    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, unlimited[1]))
    try:
        asyncio.run(scenario())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


class FailingConnection:
    """A connection whose statements fail with a disk error."""

    def __init__(self, real: sqlite3.Connection, word: str) -> None:
        self._real = real
        self._word = word

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.startswith(self._word):
            raise sqlite3.OperationalError("disk I/O error")
        return self._real.execute(statement, *parameters)


@pytest.mark.parametrize("word", ["BEGIN", "DELETE", "UPDATE", "INSERT", "COMMIT"])
async def test_failed_commit_leaves_nothing_behind_and_the_next_one_works(on_disk: Open, word: str) -> None:
    store = on_disk()
    for n in range(5):
        await store.commit([PutKey(PODS + "a", str(n).encode())])
    journal = store._journal
    assert journal is not None
    real = connection(store)
    journal._connection = FailingConnection(real, word)  # type: ignore[assignment]
    store.compact(4)
    with pytest.raises(errors.StoreError, match="disk I/O error"):
        await store.create(PODS + "b", b"")
    assert values(store) == {"a": b"4"}

    journal._connection = real
    await store.create(PODS + "b", b"")
    await store.close()
    reopened = on_disk()
    assert (values(reopened), reopened.compacted_revision) == ({"a": b"4", "b": b""}, 4)
    assert [event.revision for event in await reopened.watch(PODS, 4).next()] == [5, 6, 7]


async def test_crash_keeps_all_acknowledged_writes(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk(Retention(revisions=20), tmp_path / "live")
    for n in range(60):
        await store.commit([PutKey(f"{PODS}{n % 7}", str(n).encode()), PutKey(PODS + "last", str(n).encode())])
        if n % 10 == 0:
            after = on_disk(directory=copy_files(tmp_path / "live", tmp_path / f"crash-{n}"))
            assert (values(after), after.revision) == (values(store), store.revision)


async def test_torn_write_ahead_log_loses_only_its_torn_end(on_disk: Open, tmp_path: Path) -> None:
    """Power loss may leave any part of the last, unacknowledged sectors; transactions stay atomic."""
    store = on_disk(directory=tmp_path / "live")
    for n in range(12):
        await store.commit([PutKey(PODS + "left", str(n).encode()), PutKey(PODS + "right", str(n).encode())])
    complete = copy_files(tmp_path / "live", tmp_path / "complete")
    log = (complete / "store.db-wal").read_bytes()
    last_values: set[int] = set()
    for number, cut in enumerate(range(len(log), 3 * 4096, -3001)):
        torn = tmp_path / f"torn-{number}"
        shutil.copytree(complete, torn)
        rest = os.urandom(min(4096, len(log) - cut)) if number % 2 else b""
        (torn / "store.db-wal").write_bytes(log[:cut] + rest)
        RevisionMarker(torn).replace(1)  # the marker is not synced: after a power loss it may be any older one
        after = on_disk(directory=torn)
        state = values(after)
        assert state.get("left") == state.get("right")
        last_values.add(int(state.get("left", b"-1")))
        assert [event.revision for event in await after.watch(PODS, 1).next(0)] == list(range(2, after.revision + 1))
    assert max(last_values) == 11
    assert len(last_values) > 5
