import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from store.test_backup import MAPS, value
from store.test_sqlite import copy_files
from trimtab import errors
from trimtab.store.inspection import inspect_directory, inspect_store
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey

Open = Callable[..., Store]
ENDLESS_VIEW = """
    CREATE VIEW log AS WITH RECURSIVE c(revision) AS (SELECT 1 UNION ALL SELECT revision + 1 FROM c)
    SELECT revision, 'k' AS key, NULL AS value, 1 AS created, 0 AS checksum FROM c
"""


async def fill(store: Store) -> None:
    for n in range(10):
        await store.commit([PutKey(f"{MAPS}{k}", value(str(k), n)) for k in range(10)])
    await store.commit([DeleteKey(f"{MAPS}9")])


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def test_closed_and_crashed_stores_are_read_without_a_change(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk(directory=tmp_path / "closed")
    await fill(store)
    crashed = copy_files(tmp_path / "closed", tmp_path / "crashed")
    await store.close()
    for directory in (tmp_path / "closed", crashed):
        before = contents(directory)
        report = inspect_directory(directory)
        assert (report.format, report.revision, report.objects, report.problems) == (2, 102, 9, ())
        assert contents(directory) == before


async def test_running_server_is_reported(on_disk: Open, tmp_path: Path) -> None:
    on_disk()
    with pytest.raises(errors.StoreError, match="in use by another process"):
        inspect_directory(tmp_path)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE log SET value = x'00' WHERE revision = 90", "revision 90: the checksum of .*/8 does not match"),
        (
            "DELETE FROM log WHERE key LIKE '%/9' AND value IS NOT NULL",
            "revision 102 deletes .*/9, which does not exist",
        ),
    ],
)
async def test_changed_rows_are_found(on_disk: Open, tmp_path: Path, statement: str, problem: str) -> None:
    store = on_disk()
    await fill(store)
    await store.close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute(statement)
    connection.close()
    assert re.search(problem, "\n".join(inspect_directory(tmp_path).problems))


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"metadata":{"name":"other"}}', b'{"metadata":3}', b"\xff"])
async def test_object_that_cannot_be_read_is_found(on_disk: Open, tmp_path: Path, content: bytes) -> None:
    store = on_disk()
    await store.commit([PutKey(f"{MAPS}a", value("a")), PutKey(f"{MAPS}b", content)])
    await store.close()
    (problem,) = inspect_directory(tmp_path).problems
    assert problem.startswith(f"{MAPS}b is not ")


async def test_damaged_pages_are_found_or_refused(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk()
    await store.commit([PutKey(f"{MAPS}{n}", value(str(n), 3000)) for n in range(100)])
    await store.close()
    path = tmp_path / "store.db"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 16384 * 16384
    content[middle : middle + 16384] = b"\xa5" * 16384
    path.write_bytes(content)
    try:
        problems = inspect_store(path).problems
    except errors.StoreError as refusal:
        problems = (str(refusal),)
    assert problems


async def test_missing_writes_and_a_missing_marker_are_found(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk()
    await fill(store)
    await store.close()
    RevisionMarker(tmp_path).replace(110)
    (problem,) = inspect_directory(tmp_path).problems
    assert "writes of the revisions 103 to 110 were acknowledged and are missing" in problem
    (tmp_path / "store.db-mark").unlink()
    (problem,) = inspect_directory(tmp_path).problems
    assert "store.db-mark is missing or damaged" in problem


async def test_other_files_are_refused(on_disk: Open, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("text " * 100)
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE t (x)")
    other.close()
    for name, why in (("notes", "not a SQLite file"), ("other", "another program"), ("none", "there is no store")):
        with pytest.raises(errors.StoreError, match=why):
            inspect_store(tmp_path / name)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER evil AFTER UPDATE ON mark BEGIN DELETE FROM log; END"],
        ["CREATE TABLE extra (a)"],
        ["DROP TABLE log", ENDLESS_VIEW],
        ["DELETE FROM mark"],
        ["INSERT INTO mark VALUES (1)"],
        ["UPDATE mark SET compacted = 'x'"],
        ["UPDATE mark SET compacted = 9223372036854775807"],
        ["UPDATE mark SET compacted = -1"],
        ["UPDATE log SET key = x'00'"],
        ["UPDATE log SET value = 5"],
        ["UPDATE log SET value = 'text'"],
        ["UPDATE log SET created = 'x'"],
    ],
)
async def test_file_that_no_store_has_written_is_refused(on_disk: Open, tmp_path: Path, statements: list[str]) -> None:
    """A restore would copy its triggers into the server, and a view can be read for ever."""
    store = on_disk(directory=tmp_path / "data")
    await store.commit([PutKey(f"{MAPS}a", value("a", 1))])
    await store.close()
    connection = sqlite3.connect(tmp_path / "data" / "store.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    with pytest.raises(errors.StoreError, match="is damaged"):
        inspect_store(tmp_path / "data" / "store.db")
