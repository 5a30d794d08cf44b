"""The cache keeps up with an API server through everything that can happen to a watch."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.value import Raw
from trimtab.client.client import Change, Listing, Resource, resource_of
from trimtab.clock import run_virtually
from trimtab.controllers.contract import Index
from trimtab.errors import ApiFault, Expired, NotFound
from trimtab.runtime.cache import Cache, Table

PODS = Resource("", "v1", "pods", "Pod")


def pod(name: str, revision: int) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "resourceVersion": str(revision)},
    }


class Scripted:
    """A client whose lists and watches go exactly as written; a fault in the script is raised."""

    def __init__(self, lists: list[Listing | Exception], watches: list[list[Change | Exception]]) -> None:
        self.lists = lists
        self.watches = watches
        self.watched_from: list[str] = []
        self.listed = 0

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        self.listed += 1
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Change]]:
        self.watched_from.append(revision)
        if not self.watches:
            await asyncio.sleep(1e9)
        for step in self.watches.pop(0):
            if isinstance(step, Exception):
                raise step
            yield [step]


def followed(client: Scripted, seconds: float = 60) -> dict[str, str]:
    """Names and revisions in the cache after a while."""

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


def bookmark(revision: int) -> Change:
    return Change("BOOKMARK", {"metadata": {"resourceVersion": str(revision)}})


def test_a_broken_watch_goes_on_from_the_last_bookmark_without_a_list() -> None:
    broken: list[Any] = [Change("ADDED", pod("web", 6)), bookmark(90), ConnectionError("reset")]
    client = Scripted([listing(revision=5)], [broken])
    assert followed(client) == {"web": "6"}
    assert (client.watched_from, client.listed) == (["5", "90"], 1)


def test_what_vanished_while_the_revision_expired_is_gone_after_the_new_list() -> None:
    client = Scripted([listing(pod("old", 4), revision=5), listing(pod("new", 8), revision=9)], [[Expired("too old")]])
    assert followed(client) == {"new": "8"}
    assert client.watched_from == ["5", "9"]


def test_a_server_that_is_away_is_asked_again_less_and_less_often() -> None:
    away: list[Listing | Exception] = [ConnectionError("refused") for _ in range(4)]
    client = Scripted([*away, listing(pod("web", 3), revision=5)], [])
    assert followed(client) == {"web": "3"}
    assert client.listed == 5


def test_a_kind_that_the_server_does_not_know_is_empty_until_it_learns_it() -> None:
    async def story() -> list[int]:
        client = Scripted([NotFound("404 page not found"), listing(pod("web", 3), revision=5)], [])
        cache = Cache(client)  # type: ignore[arg-type]
        table = cache.table(PODS)
        await asyncio.wait_for(table.synced.wait(), 1)
        sizes = [len(table.entries)]
        await asyncio.sleep(10)
        await cache.close()
        return [*sizes, len(table.entries)]

    assert run_virtually(story()) == [0, 1]


def test_what_was_seen_stays_while_a_server_pretends_not_to_know_the_kind() -> None:
    lists: list[Any] = [listing(pod("web", 3), revision=5), NotFound("404 page not found")]
    assert followed(Scripted(lists, [[Expired("too old")]])) == {"web": "3"}


def test_a_fault_that_names_a_time_is_waited_for() -> None:
    async def story() -> int:
        client = Scripted([ApiFault("busy", retry_after=20), listing(revision=5)], [])
        cache = Cache(client)  # type: ignore[arg-type]
        cache.table(PODS)
        await asyncio.sleep(19)
        listed = client.listed
        await asyncio.sleep(2)
        await cache.close()
        return client.listed - listed

    assert run_virtually(story()) == 1


def test_a_write_that_overtook_its_event_is_not_undone_by_it() -> None:
    async def story() -> str:
        client = Scripted([listing(pod("web", 3), revision=5)], [[Change("MODIFIED", pod("web", 6))]])
        cache = Cache(client)  # type: ignore[arg-type]
        table = cache.table(PODS)
        await table.synced.wait()
        table.put(pod("web", 7))
        await asyncio.sleep(10)
        await cache.close()
        return table.entries["shop", "web"].revision

    assert run_virtually(story()) == "7"


def test_a_listener_that_stumbles_costs_nobody_else_anything(caplog: Any) -> None:
    async def story() -> tuple[list[str], str]:
        client = Scripted([listing(pod("web", 3), revision=5)], [[Change("MODIFIED", pod("web", 6))]])
        cache = Cache(client)  # type: ignore[arg-type]
        table = cache.table(PODS)
        heard: list[str] = []

        def stumbles(_old: Any, _new: Any) -> None:
            raise ZeroDivisionError

        table.listen(stumbles)
        table.listen(lambda _old, new: heard.append(new.revision) if new else None)
        await asyncio.sleep(10)
        await cache.close()
        return heard, table.entries["shop", "web"].revision

    assert run_virtually(story()) == (["3", "6"], "6")
    assert "a listener failed on pods ('shop', 'web')" in caplog.text


def test_a_server_that_answers_nonsense_is_asked_again() -> None:
    nonsense: Raw = {"kind": "Pod"}
    client = Scripted([listing(nonsense, revision=4), listing(pod("web", 3), revision=5)], [])
    assert followed(client) == {"web": "3"}


def test_the_dead_do_not_come_back_with_the_answer_of_the_write_that_ended_them() -> None:
    async def story() -> None:
        table = Table(Resource("", "v1", "configmaps", "ConfigMap"))
        last = {"metadata": {"namespace": "demo", "name": "a", "resourceVersion": "8"}}
        table.put({"metadata": {"namespace": "demo", "name": "a", "resourceVersion": "7"}})
        table.drop(("demo", "a"), "8")
        table.put(last)
        assert not table.entries
        table.put({"metadata": {"namespace": "demo", "name": "a", "resourceVersion": "9"}})
        assert list(table.entries) == [("demo", "a")]

    run_virtually(story())


def test_who_owns_which_field_is_not_kept() -> None:
    async def story() -> None:
        owned = pod("a", 2)
        owned["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
        table = Table(PODS)
        table.put(owned)
        assert table.entries["shop", "a"].raw == pod("a", 2)
        assert "managedFields" in owned["metadata"]  # it is others' too

    run_virtually(story())


def test_an_index_follows_what_changes_and_keeps_what_does_not() -> None:
    async def story() -> None:
        def put(revision: int, **labels: str) -> None:
            table.put({"metadata": {"name": "a", "resourceVersion": str(revision), "labels": labels}})

        by_colour = Index("maps by colour", ConfigMap, lambda one: [one.metadata.labels.get("colour", "")])
        table = Table(resource_of(kind_of(ConfigMap)))
        put(1, colour="red")
        assert [one.name for one in table.having(by_colour, "red")] == ["a"]
        put(2, colour="red", size="small")
        assert [one.metadata.labels["size"] for one in table.having(by_colour, "red")] == ["small"]
        put(3, colour="blue")
        assert [one.name for one in table.having(by_colour, "blue")] == ["a"]
        assert table.having(by_colour, "red") == []
        table.drop(("", "a"), "4")
        assert table.having(by_colour, "blue") == []

    run_virtually(story())
