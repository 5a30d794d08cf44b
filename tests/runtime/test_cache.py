"""The cache stays current through every failure of a watch."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Raw
from trimtab.client.client import Listing, Resource, WatchEvent, resource_of
from trimtab.clock import run_virtually
from trimtab.controllers.contract import Index
from trimtab.errors import ApiError, Expired, NotFound
from trimtab.runtime.cache import Cache, Table

PODS = Resource("", "v1", "pods", "Pod")


def pod(name: str, revision: int) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "resourceVersion": str(revision)},
    }


class ScriptedClient:
    """A client with scripted lists and watches; an exception in the script is raised."""

    def __init__(self, lists: list[Listing | Exception], watches: list[list[WatchEvent | Exception]]) -> None:
        self.lists = lists
        self.watches = watches
        self.watched_from: list[str] = []
        self.listed = 0

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        self.listed += 1
        listing_or_fault = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(listing_or_fault, Exception):
            raise listing_or_fault
        return listing_or_fault

    async def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        found = await self.list(resource, namespace, labels=labels)
        for item in found.items[:-1]:
            yield Listing([item], found.revision)
        yield Listing(found.items[-1:], found.revision)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        self.watched_from.append(revision)
        if not self.watches:
            await asyncio.sleep(1e9)
        for step in self.watches.pop(0):
            if isinstance(step, Exception):
                raise step
            yield [step]


def cached_revisions(client: ScriptedClient, seconds: float = 60) -> dict[str, str]:
    """Names and revisions in the cache after `seconds`."""

    async def main() -> dict[str, str]:
        cache = Cache(client)  # type: ignore[arg-type]
        table = cache.table(PODS)
        await asyncio.sleep(seconds)
        found = {name: entry.revision for (_, name), entry in table.entries.items()}
        await cache.close()
        return found

    return run_virtually(main())


def listing(*pods: Raw, revision: int) -> Listing:
    return Listing(list(pods), str(revision))


def bookmark(revision: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(revision)}})


def test_broken_watch_resumes_from_the_last_bookmark_without_a_list() -> None:
    broken: list[Any] = [WatchEvent("ADDED", pod("web", 6)), bookmark(90), ConnectionError("reset")]
    client = ScriptedClient([listing(revision=5)], [broken])
    assert cached_revisions(client) == {"web": "6"}
    assert (client.watched_from, client.listed) == (["5", "90"], 1)


def test_object_deleted_while_the_revision_expired_is_dropped_by_the_new_list() -> None:
    client = ScriptedClient(
        [listing(pod("old", 4), revision=5), listing(pod("new", 8), revision=9)], [[Expired("too old")]]
    )
    assert cached_revisions(client) == {"new": "8"}
    assert client.watched_from == ["5", "9"]


def test_list_is_retried_with_back_off_while_the_server_is_down() -> None:
    refused: list[Listing | Exception] = [ConnectionError("refused") for _ in range(4)]
    client = ScriptedClient([*refused, listing(pod("web", 3), revision=5)], [])
    assert cached_revisions(client) == {"web": "3"}
    assert client.listed == 5


def test_unserved_kind_is_empty_until_the_server_serves_it() -> None:
    async def scenario() -> list[int]:
        client = ScriptedClient([NotFound("404 page not found"), listing(pod("web", 3), revision=5)], [])
        cache = Cache(client)  # type: ignore[arg-type]
        table = cache.table(PODS)
        await asyncio.wait_for(table.synced.wait(), 1)
        sizes = [len(table.entries)]
        await asyncio.sleep(10)
        await cache.close()
        return [*sizes, len(table.entries)]

    assert run_virtually(scenario()) == [0, 1]


def test_cached_objects_stay_while_the_server_stops_serving_the_kind() -> None:
    lists: list[Any] = [listing(pod("web", 3), revision=5), NotFound("404 page not found")]
    assert cached_revisions(ScriptedClient(lists, [[Expired("too old")]])) == {"web": "3"}


def test_retry_after_of_a_fault_is_respected() -> None:
    async def scenario() -> int:
        client = ScriptedClient([ApiError("busy", retry_after=20), listing(revision=5)], [])
        cache = Cache(client)  # type: ignore[arg-type]
        cache.table(PODS)
        await asyncio.sleep(19)
        listed = client.listed
        await asyncio.sleep(2)
        await cache.close()
        return client.listed - listed

    assert run_virtually(scenario()) == 1


def test_late_watch_event_does_not_undo_a_newer_write() -> None:
    async def scenario() -> None:
        table, name = Table(PODS), ("shop", "web")
        table.put(pod("web", 3))
        table.put(pod("web", 7))
        table.put(pod("web", 6))
        assert table.entries[name].revision == "7"
        table.drop(name, "5")
        assert table.entries[name].revision == "7", "it was created again since then"
        table.drop(name, "8")
        assert not table.entries

    run_virtually(scenario())


def test_object_that_is_written_while_saved_tables_are_compared_stays() -> None:
    async def scenario() -> None:
        table, name = Table(PODS), ("shop", "web")
        table.put(pod("web", 7))
        table.end_comparison([name], {name: "5"}, "6")
        assert table.entries[name].revision == "7"
        table.end_comparison([name], {name: "7"}, "8")
        assert not table.entries

    run_virtually(scenario())


def test_failing_listener_affects_no_other_listener(caplog: Any) -> None:
    async def scenario() -> tuple[list[str], str]:
        client = ScriptedClient([listing(pod("web", 3), revision=5)], [[WatchEvent("MODIFIED", pod("web", 6))]])
        cache = Cache(client)  # type: ignore[arg-type]
        table = cache.table(PODS)
        revisions: list[str] = []

        def fails(_old: Any, _new: Any) -> None:
            raise ZeroDivisionError

        table.add_listener(fails)
        table.add_listener(lambda _old, new: revisions.append(new.revision) if new else None)
        await asyncio.sleep(10)
        await cache.close()
        return revisions, table.entries["shop", "web"].revision

    assert run_virtually(scenario()) == (["3", "6"], "6")
    assert "a listener failed on pods ('shop', 'web')" in caplog.text


def test_a_table_is_found_by_the_type_of_its_objects_until_it_is_removed() -> None:
    async def scenario() -> None:
        cache = Cache(ScriptedClient([], []))  # type: ignore[arg-type]
        table = cache.by_type[ConfigMap]
        assert (cache.table(resource_of(kind_of(ConfigMap))), cache.table_of(ConfigMap), cache.by_id["configmaps"]) == (
            table,
        ) * 3
        cache.remove_table("configmaps")
        assert cache.by_type[ConfigMap] is not table
        await cache.close()

    run_virtually(scenario())


def test_list_is_retried_after_a_malformed_response() -> None:
    malformed: Raw = {"kind": "Pod"}
    client = ScriptedClient([listing(malformed, revision=4), listing(pod("web", 3), revision=5)], [])
    assert cached_revisions(client) == {"web": "3"}


def test_late_response_does_not_restore_a_deleted_object() -> None:
    async def scenario() -> None:
        table = Table(Resource("", "v1", "configmaps", "ConfigMap"))
        last = {"metadata": {"namespace": "demo", "name": "a", "resourceVersion": "8"}}
        table.put({"metadata": {"namespace": "demo", "name": "a", "resourceVersion": "7"}})
        table.drop(("demo", "a"), "8")
        table.put(last)
        assert not table.entries
        table.put({"metadata": {"namespace": "demo", "name": "a", "resourceVersion": "9"}})
        assert list(table.entries) == [("demo", "a")]

    run_virtually(scenario())


def test_names_are_sorted_and_found_by_namespace() -> None:
    async def scenario() -> None:
        table = Table(PODS)
        for number, (namespace, name) in enumerate([("b", "y"), ("a", "z"), ("b", "x"), ("a-b", "w")], 1):
            table.put({"metadata": {"namespace": namespace, "name": name, "resourceVersion": str(number)}})
        assert list(table.names()) == [("a", "z"), ("a-b", "w"), ("b", "x"), ("b", "y")]
        assert list(table.names("b")) == [("b", "x"), ("b", "y")]
        table.drop(("b", "x"))
        table.drop(("a", "z"))
        assert list(table.names()) == [("a-b", "w"), ("b", "y")]
        assert list(table.names("a")) == []

    run_virtually(scenario())


def test_managed_fields_are_not_cached() -> None:
    async def scenario() -> None:
        owned = pod("a", 2)
        owned["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
        table = Table(PODS)
        table.put(owned)
        assert table.entries["shop", "a"].raw == pod("a", 2)
        assert "managedFields" in owned["metadata"]  # the caller's object must not be modified

    run_virtually(scenario())


def test_index_follows_changes() -> None:
    async def scenario() -> None:
        def put(revision: int, **labels: str) -> None:
            table.put({"metadata": {"name": "a", "resourceVersion": str(revision), "labels": labels}})

        by_colour = Index("maps by colour", ConfigMap, lambda one: [one.metadata.labels.get("colour", "")])
        table = Table(resource_of(kind_of(ConfigMap)))
        put(1, colour="red")
        assert [one.name for one in table.by_index(by_colour, "red")] == ["a"]
        put(2, colour="red", size="small")
        assert [one.metadata.labels["size"] for one in table.by_index(by_colour, "red")] == ["small"]
        put(3, colour="blue")
        assert [one.name for one in table.by_index(by_colour, "blue")] == ["a"]
        assert table.by_index(by_colour, "red") == []
        table.drop(("", "a"), "4")
        assert table.by_index(by_colour, "blue") == []

    run_virtually(scenario())


def test_a_list_in_pages_replaces_what_was_cached_before() -> None:
    first, second = Listing([pod("a", 1), pod("b", 2), pod("c", 3)], "3"), Listing([pod("c", 3), pod("d", 5)], "6")
    client = ScriptedClient([first, second], [[Expired("too old")]])
    assert cached_revisions(client) == {"c": "3", "d": "5"}
    assert client.watched_from[-1] == "6"


def test_typed_value_of_a_changed_object_shares_what_the_change_left_alone() -> None:
    table = Table(resource_of(kind_of(ResourceBinding)))
    binding: Raw = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "1"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": {},
    }
    table.put(binding)
    before: Any = table.entries["shop", "web"].typed
    table.put({**binding, "metadata": {**binding["metadata"], "resourceVersion": "2"}, "status": {"conditions": []}})
    after: Any = table.entries["shop", "web"].typed
    assert after.spec is before.spec
    assert after.metadata.resource_version == "2"
