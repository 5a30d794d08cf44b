"""Stores of every format open, and are in the current format afterwards."""

import asyncio
import sqlite3
import tarfile
from pathlib import Path

import orjson
import pytest

from trimtab.errors import StorageFull, StoreError
from trimtab.server.daemon import Daemon
from trimtab.server.storage.formats import CONVERSIONS, open_store
from trimtab.store.faults import full_fault
from trimtab.store.sqlite import FORMAT, CommitBatch, Journal
from trimtab.store.store import Store

STORES = Path(__file__).parents[2] / "store" / "stores_of_format_1.tar.xz"
"""Two stores that an earlier Trimtab wrote: one was closed, in the other everything is in the write-ahead log."""
LAST_REVISIONS = {"closed": 99, "killed": 73}
BINDING = "/registry/work.karmada.io/resourcebindings/default/web-deployment"
MAPS = "/registry/core/configmaps/default/"


def unpack(directory: Path, name: str) -> Path:
    with tarfile.open(STORES) as archive:
        archive.extractall(directory, filter="data")
    return directory / name


def format_of(directory: Path) -> int:
    connection = sqlite3.connect(directory / "store.db")
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(number)


def test_every_older_format_has_a_conversion() -> None:
    assert sorted(CONVERSIONS) == list(range(1, FORMAT))


@pytest.mark.parametrize("name", ["closed", "killed"])
def test_store_of_format_1_opens_with_all_objects_and_their_revisions(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        directory, last = unpack(tmp_path, name), LAST_REVISIONS[name]
        for _ in range(2):
            store = open_store(directory)
            maps = {entry.key.removeprefix(MAPS): orjson.loads(entry.value) for entry in store.list(MAPS).entries}
            assert sorted(maps) == ["settings-0", "settings-1", "settings-2"]
            assert maps["settings-1"]["data"] == {"n": "changed"}
            binding = store.get(BINDING)
            assert binding is not None
            status = orjson.loads(binding.value)["status"]
            assert status == {"betterPlacement": {"clusters": [{"name": "m2"}]}, "placementRefClusters": ["m1"]}
            assert binding.mod_revision == store.revision == last + 1  # converted once
            events = await store.watch(BINDING, last).next(0)  # a watch that resumes sees the conversion
            assert [event.revision for event in events] == [last + 1]
            await store.close()
            assert format_of(directory) == FORMAT

    asyncio.run(scenario())


def test_server_serves_a_store_of_format_1(tmp_path: Path) -> None:
    async def scenario() -> None:
        daemon = Daemon(unpack(tmp_path, "killed"), "127.0.0.1", 0)
        await daemon.start()
        assert daemon.api.store.count(MAPS) == 3
        await daemon.stop()

    asyncio.run(scenario())


def test_failed_conversion_leaves_the_old_store(tmp_path: Path) -> None:
    directory = unpack(tmp_path, "closed")

    def fail(key: str, value: bytes) -> bytes:
        raise StoreError("no space left")

    with pytest.raises(StoreError, match="no space left"):
        Store.open(directory, conversions={1: fail})
    assert format_of(directory) == 1
    store = open_store(directory)
    assert store.revision == LAST_REVISIONS["closed"] + 1
    asyncio.run(store.close())


def test_store_of_format_1_without_room_is_read_and_converted_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = unpack(tmp_path, "closed")
    is_full = True
    write = Journal.write

    def write_if_there_is_room(journal: Journal, batch: CommitBatch) -> None:
        if is_full:
            raise full_fault(journal.path)
        write(journal, batch)

    monkeypatch.setattr(Journal, "write", write_if_there_is_room)

    async def scenario() -> None:
        nonlocal is_full
        store = open_store(directory)
        assert isinstance(store.fault, StorageFull)
        assert store.revision == LAST_REVISIONS["closed"] + 1
        assert store.count(MAPS)
        with pytest.raises(StorageFull):
            await store.create(f"{MAPS}default/new", b"{}")
        await store.close()
        assert format_of(directory) == 1
        store = open_store(directory)
        assert store.revision == LAST_REVISIONS["closed"] + 1
        is_full = False
        assert (await store.create(f"{MAPS}default/new", b"{}")).mod_revision == LAST_REVISIONS["closed"] + 2
        assert store.fault is None
        await store.close()

    asyncio.run(scenario())
    assert format_of(directory) == 2
    again = open_store(directory)
    assert again.revision == LAST_REVISIONS["closed"] + 2
    asyncio.run(again.close())


def test_store_of_an_older_format_is_not_opened_without_its_conversion(tmp_path: Path) -> None:
    directory = unpack(tmp_path, "closed")
    with pytest.raises(ValueError, match="no conversion from format 1"):
        Store.open(directory)
    assert format_of(directory) == 1
