"""An API server in process, and reviews as a kube-apiserver sends them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.runtime.cache import Cache
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import User
from trimtab.server.local import LocalClient
from trimtab.store.store import Store
from trimtab.webhook.review import Review

load_declarations()


class Cluster:
    """A client and a cache of one API server."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = LoopClock()
        self.client: Client = LocalClient(server)
        self.cache = Cache(self.client)

    async def add(self, *objects: Raw) -> list[Raw]:
        """Create objects with their status."""
        return [await self._add(obj) for obj in objects]

    async def _add(self, obj: Raw) -> Raw:
        kind = find_kind(obj["apiVersion"], obj["kind"])
        assert kind is not None
        resource = resource_of(kind)
        created = await self.client.create(resource, obj)
        if "status" not in obj:
            return created
        return await self.client.replace(resource, {**created, "status": obj["status"]}, subresource="status")


class ReviewingClient:
    """The client of a cluster that answers SubjectAccessReviews as well, which only the HTTP layer of the server does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.client, name)

    async def create(self, resource: Resource, body: Raw) -> Raw:
        assert (resource.kind, body["metadata"]) == ("SubjectAccessReview", {})
        spec = body["spec"]
        asked = spec["resourceAttributes"]
        fields = ("verb", "group", "resource", "subresource", "namespace", "name")
        user = User(spec["user"], tuple(spec["groups"]))
        allowed = self._cluster.server.authorizer.allows(user, Action(*(asked.get(field, "") for field in fields)))
        return {**body, "status": {"allowed": allowed}}


def run_in_cluster(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        cluster = Cluster(server)
        try:
            await scenario(cluster)
        finally:
            await cluster.cache.close()
            await server.stop()

    run_virtually(run())


async def settle() -> None:
    await asyncio.sleep(1)


def creation(resource: str, obj: Raw, **more: Any) -> Review:
    metadata = obj["metadata"]
    place = {"namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}
    return Review(uid="r1", resource=resource, operation="CREATE", object=obj, **{**place, **more})
