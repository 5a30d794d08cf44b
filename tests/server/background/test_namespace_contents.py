"""Terminating namespaces: only they are emptied, and they stay until they are empty."""

import asyncio
from collections.abc import Awaitable, Callable

from trimtab.client.client import Resource
from trimtab.errors import NotFound
from trimtab.server.apiserver import ApiServer
from trimtab.server.auth.user import Caller
from trimtab.server.background.namespace_contents import NamespaceContents
from trimtab.server.local import LocalClient
from trimtab.server.resources import ObjectPath
from trimtab.store.store import Store

NAMESPACES, MAPS = Resource("", "v1", "namespaces", "Namespace", False), Resource("", "v1", "configmaps", "ConfigMap")


PODS = Resource("", "v1", "pods", "Pod")


class Shop:
    """A namespace with one object, on a server whose background tasks do not run."""

    def __init__(self) -> None:
        self.server = ApiServer(Store())
        self.client = LocalClient(self.server)
        self.contents = NamespaceContents(self.server.resource_store, Caller(), 0.0)

    async def create(self, *finalizers: str) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await self.client.create(MAPS, {"metadata": {"name": "a", "namespace": "shop", "finalizers": list(finalizers)}})

    async def delete_all(self) -> bool:
        served = self.server.catalogue.find_preferred("", "namespaces")
        assert served is not None
        where = ObjectPath(served, "", "shop")
        return await self.contents.delete_all(where.key, where)

    async def exists(self) -> bool:
        try:
            await self.client.get(NAMESPACES, "", "shop")
        except NotFound:
            return False
        return True

    async def names(self) -> list[str]:
        return [one["metadata"]["name"] for one in (await self.client.list(MAPS, "shop")).items]


def run(scenario: Callable[[Shop], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Shop())

    asyncio.run(main())


def test_nothing_is_deleted_in_a_namespace_that_is_not_terminating() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.create()
        assert await shop.delete_all()
        assert (await shop.exists(), await shop.names()) == (True, ["a"])

    run(scenario)


def test_a_namespace_stays_until_the_last_object_in_it_is_gone() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.create("example.com/wait")
        await shop.client.delete(NAMESPACES, "", "shop")
        assert await shop.delete_all()
        assert (await shop.exists(), await shop.names()) == (True, ["a"])
        await shop.client.patch(MAPS, "shop", "a", {"metadata": {"finalizers": None}})
        assert await shop.delete_all()
        assert not await shop.exists()

    run(scenario)


def test_conditions_tell_what_remains_and_which_finalizers_keep_it() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.create("example.com/wait")
        await shop.client.delete(NAMESPACES, "", "shop")
        await shop.delete_all()
        conditions = (await shop.client.get(NAMESPACES, "", "shop"))["status"]["conditions"]
        assert {one["type"]: (one["status"], one["reason"], one["message"]) for one in conditions} == {
            "NamespaceDeletionDiscoveryFailure": (
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            "NamespaceDeletionGroupVersionParsingFailure": (
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            "NamespaceDeletionContentFailure": (
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            "NamespaceContentRemaining": (
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 1 resource instances",
            ),
            "NamespaceFinalizersRemaining": (
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances",
            ),
        }

    run(scenario)


def test_other_objects_stay_until_the_pods_are_gone() -> None:
    async def scenario(shop: Shop) -> None:
        await shop.create()
        pod = {"metadata": {"name": "p", "namespace": "shop", "finalizers": ["example.com/wait"]}}
        await shop.client.create(PODS, {**pod, "spec": {"containers": [{"name": "main", "image": "app:1"}]}})
        await shop.client.delete(NAMESPACES, "", "shop")
        await shop.delete_all()
        assert (await shop.client.get(PODS, "shop", "p"))["metadata"]["deletionTimestamp"]
        assert await shop.names() == ["a"]
        await shop.client.patch(PODS, "shop", "p", {"metadata": {"finalizers": None}})
        assert await shop.delete_all()
        assert not await shop.exists()

    run(scenario)
