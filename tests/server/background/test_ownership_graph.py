"""Which objects have lost their owners, and which an owner in deletion waits for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from trimtab.server.apiserver import ApiServer
from trimtab.server.background.ownership_graph import OwnershipGraph
from trimtab.store.keys import object_key
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey


def key_of(name: str) -> str:
    return object_key("", "configmaps", "default", name)


def reference(name: str, uid: str = "", kind: str = "ConfigMap", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid or f"uid-{name}", **more}


class Objects:
    """ConfigMaps in a store, and the graph that notes them."""

    def __init__(self) -> None:
        self.store = Store()
        self.graph = OwnershipGraph(self.store, ApiServer(self.store).resource_store.catalogue)

    async def put(self, name: str, *owners: dict[str, Any], **metadata: Any) -> str:
        given = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "ownerReferences": list(owners),
            **metadata,
        }
        await self.store.commit([PutKey(key_of(name), orjson.dumps({"metadata": given}))])
        self.graph.note(key_of(name), tuple(owner["uid"] for owner in owners))
        return key_of(name)


def run(scenario: Callable[[Objects], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Objects())

    asyncio.run(main())


def test_an_object_is_collected_when_its_owner_is_gone_or_another_object_has_its_name() -> None:
    async def scenario(objects: Objects) -> None:
        await objects.put("owner")
        assert objects.graph.deletion_options(await objects.put("child", reference("owner"))) is None
        for owner in (reference("gone"), reference("owner", uid="uid-of-an-earlier-one")):
            options = objects.graph.deletion_options(await objects.put("child", owner))
            assert options is not None
            assert (options.uid, options.propagation_policy) == ("uid-child", "Background")

    run(scenario)


def test_an_object_stays_while_one_of_its_owners_does_or_may() -> None:
    async def scenario(objects: Objects) -> None:
        await objects.put("owner")
        gone = reference("gone")
        for other in (reference("owner"), reference("unknown", kind="Gadget")):
            assert objects.graph.deletion_options(await objects.put("child", gone, other)) is None
        assert objects.graph.deletion_options(await objects.put("free")) is None

    run(scenario)


def test_an_object_in_deletion_is_not_collected_again() -> None:
    async def scenario(objects: Objects) -> None:
        key = await objects.put("child", reference("gone"), deletionTimestamp="2026-03-01T12:00:00Z")
        assert objects.graph.deletion_options(key) is None

    run(scenario)


def test_only_references_to_owners_that_are_gone_are_lost_and_only_beside_another_one() -> None:
    async def scenario(objects: Objects) -> None:
        await objects.put("owner")
        assert objects.graph.lost_owners(await objects.put("a", reference("owner"), reference("gone"))) == {"uid-gone"}
        assert objects.graph.lost_owners(await objects.put("b", reference("gone"), reference("lost"))) == frozenset()

    run(scenario)


def test_a_dependent_blocks_the_deletion_of_its_owner_only_if_it_says_so_and_exists() -> None:
    async def scenario(objects: Objects) -> None:
        await objects.put("child", reference("owner"))
        assert not objects.graph.blocks_deletion("uid-owner")
        await objects.put("child", reference("owner", blockOwnerDeletion=True))
        assert objects.graph.blocks_deletion("uid-owner")
        assert not objects.graph.blocks_deletion("uid-other")
        await objects.store.commit([DeleteKey(key_of("child"))])
        assert not objects.graph.blocks_deletion("uid-owner")

    run(scenario)


def test_dependents_follow_the_references_of_objects() -> None:
    async def scenario(objects: Objects) -> None:
        key = await objects.put("child", reference("owner"))
        assert not objects.graph.note(key, ("uid-owner",)), "nothing has changed"
        assert objects.graph.dependents_of("uid-owner") == [key]
        await objects.put("child", reference("next"))
        assert (objects.graph.dependents_of("uid-owner"), objects.graph.dependents_of("uid-next")) == ([], [key])
        objects.graph.forget(key)
        assert objects.graph.dependents_of("uid-next") == []

    run(scenario)
