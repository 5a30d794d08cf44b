"""Saved caches: what is loaded is what was saved, and what the server has wins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest

import trimtab
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.value import Key, Raw
from trimtab.client.client import Changes, Client, Resource, resource_of
from trimtab.clock import run_virtually
from trimtab.controllers.contract import Index
from trimtab.runtime.cache import Cache, CacheEntry, Table
from trimtab.runtime.saved_state import HOST, SavedState, origin_of, take_state, write_state
from trimtab.runtime.saved_tables import SavedQueue
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

MAPS = resource_of(kind_of(ConfigMap))
BY_COLOUR: Index[ConfigMap] = Index("by colour", ConfigMap, lambda one: [one.data["colour"]] if one.data else [])


def config_map(name: str, colour: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"colour": colour},
    }


async def started_server() -> LocalClient:
    server = ApiServer(Store())
    await server.start()
    client = LocalClient(server)
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        await client.create(MAPS, config_map(name, colour))
    return client


async def save_maps(client: Client, path: Path) -> None:
    """Save a cache with an index."""
    cache = Cache(client)
    table = cache.table_of(ConfigMap)
    await table.synced.wait()
    table.by_index(BY_COLOUR, "red")
    write_state(path, "me", {"one": SavedQueue([Key("x", "", "y")], [])}, {"m1": "here"}, [(HOST, cache.save())])
    await cache.close()


class Loaded:
    """A cache from a file, and the changes that a listener of changes has seen."""

    def __init__(self, client: Client, path: Path) -> None:
        saved = take_state(path, "me")
        assert saved is not None
        self.cache = Cache(client, saved=saved.tables_of_host())
        self.table: Table = self.cache.table_of(ConfigMap)
        self.changes: list[tuple[str, str]] = []
        self.table.add_listener(self._changed, only_changes=True)
        self.all: list[str] = []
        self.table.add_listener(lambda _, new: self.all.append(new.name[1] if new else ""))

    def _changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        self.changes.append((colour_of(old), colour_of(new)))

    async def compare(self) -> None:
        self.cache.compare_saved()
        await self.table.synced.wait()

    def with_colour(self, colour: str) -> list[str]:
        return [one.name for one in self.table.by_index(BY_COLOUR, colour)]


def colour_of(entry: CacheEntry | None) -> str:
    return entry.raw["data"]["colour"] if entry is not None else ""


def run_with_saved_maps(
    path: Path, meanwhile: Callable[[LocalClient], Awaitable[None]], check: Callable[[Loaded], None]
) -> None:
    async def main() -> None:
        client = await started_server()
        await save_maps(client, path)
        await meanwhile(client)
        loaded = Loaded(client, path)
        await asyncio.sleep(1)
        assert not loaded.table.synced.is_set()  # nobody said that all listeners are there
        await loaded.compare()
        check(loaded)
        await loaded.cache.close()

    run_virtually(main())


async def nothing(client: LocalClient) -> None:
    """Nothing happens meanwhile."""


def test_an_unchanged_table_is_loaded_without_a_change(tmp_path: Path) -> None:
    def check(loaded: Loaded) -> None:
        assert loaded.changes == []
        assert sorted(loaded.all)[-3:] == ["a", "b", "c"]  # listeners that need every object get it
        assert loaded.with_colour("red") == ["a", "b"]
        assert loaded.table.entries["default", "c"].raw["data"] == {"colour": "blue"}

    run_with_saved_maps(tmp_path / "state", nothing, check)


def test_changes_of_the_meantime_reach_listeners_and_indexes_with_the_old_state(tmp_path: Path) -> None:
    async def meanwhile(client: LocalClient) -> None:
        await client.patch(MAPS, "default", "a", {"data": {"colour": "blue"}})
        await client.delete(MAPS, "default", "b")
        await client.create(MAPS, config_map("d", "red"))

    def check(loaded: Loaded) -> None:
        assert sorted(loaded.changes) == [("", "red"), ("red", ""), ("red", "blue")]
        assert (loaded.with_colour("red"), loaded.with_colour("blue")) == (["d"], ["a", "c"])

    run_with_saved_maps(tmp_path / "state", meanwhile, check)


class RestoredServer(LocalClient):
    """A server that was restored from a backup: one object has an older version than was saved."""

    async def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        older = config_map("a", "green")
        older["metadata"]["resourceVersion"] = "1"
        yield Changes([older], [], revision)


def test_what_a_restored_server_has_replaces_a_newer_version(tmp_path: Path) -> None:
    async def main() -> None:
        client = await started_server()
        await save_maps(client, tmp_path / "state")
        loaded = Loaded(RestoredServer(client._server), tmp_path / "state")
        await loaded.compare()
        assert loaded.changes == [("red", "green")]
        await loaded.cache.close()

    run_virtually(main())


def test_a_file_of_another_origin_is_not_used_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(path, "me", {}, {}, [])
    assert take_state(path, "you") is None
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 400])
def test_a_file_that_is_something_else_is_not_used(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    assert take_state(tmp_path / "state", "me") is None


def test_queues_and_the_tables_of_a_member_at_the_same_address_are_found(tmp_path: Path) -> None:
    path = tmp_path / "state"
    run_virtually(_saved(path))
    saved: SavedState | None = take_state(path, "me")
    assert saved is not None
    assert saved.queues["one"].unfinished == [Key("x", "", "y")]
    assert saved.tables_of_member("m1", "elsewhere") is None
    assert saved.tables_of_member("m1", "here") is not None


async def _saved(path: Path) -> None:
    await save_maps(await started_server(), path)


def test_a_summary_with_one_other_letter_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "state"
    run_virtually(_saved(path))
    written = path.read_bytes()
    assert written.count(b"here") == 1
    path.write_bytes(written.replace(b"here", b"hero"))  # it can be decoded, and names another address of a member
    assert take_state(path, "me") is None


def test_another_profile_setting_or_set_of_controllers_is_another_origin() -> None:
    origins = {
        origin_of("trimtab", {}, ["a"]),
        origin_of("upstream", {}, ["a"]),
        origin_of("trimtab", {"x": 1}, ["a"]),
        origin_of("trimtab", {}, ["a", "b"]),
    }
    assert len(origins) == 4
    assert origin_of("trimtab", {"x": frozenset("ab")}, ["b", "a"]) == origin_of(
        "trimtab", {"x": frozenset("ba")}, ["a", "b"]
    )


def test_a_damaged_part_is_not_used_and_neither_is_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "state"
    run_virtually(_saved(path))
    content = bytearray(path.read_bytes())
    content[3] ^= 0xFF
    path.write_bytes(content)
    saved = take_state(path, "me")
    assert saved is not None
    assert list(saved.take(HOST, MAPS)) == []


def test_other_code_is_another_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "module.py"
    monkeypatch.setattr(trimtab, "__file__", str(tmp_path / "__init__.py"))
    module.write_text("a = 1")
    before = origin_of("trimtab", {}, [])
    assert origin_of("trimtab", {}, []) == before
    module.write_text("a = 10")
    assert origin_of("trimtab", {}, []) != before
