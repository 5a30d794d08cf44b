"""The roster follows Cluster objects and caches managed objects of members."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from trimtab.client.client import PlainResponse, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.contract import NOT_FETCHED, Ref
from trimtab.errors import ApiError, InputError, NotFound
from trimtab.members.roster import UNMANAGED_SECONDS, MemberHandle, Roster
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.saved_tables import SavedPart
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.simulate.faulty_client import FaultyMemberClient
from trimtab.store.store import Store

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
MANAGED = Ref("v1", "ConfigMap", "default", "ours")
UNMANAGED = Ref("v1", "ConfigMap", "default", "theirs")


class Harness:
    """A host, a member, and a roster."""

    def __init__(self, host: ApiServer, member: ApiServer) -> None:
        self.host = LocalClient(host)
        self.member = LocalClient(member)
        self.changes: list[tuple[str, str]] = []
        self.connected: list[str] = []
        self.cache = Cache(LocalClient(host))
        self.roster = Roster(self.cache, self.connect, self.record_change)

    def connect(self, cluster):
        self.connected.append(cluster.spec.api_endpoint)
        if cluster.spec.api_endpoint.endswith("broken"):
            raise InputError("the certificates cannot be used")
        return LocalClient(self.member._server) if not cluster.spec.api_endpoint.endswith("later") else None

    def record_change(self, cluster: str, old, new) -> None:
        self.changes.append((cluster, (new or old)["metadata"]["name"]))

    async def join(self, name: str, endpoint: str = "https://east") -> None:
        spec = {"apiEndpoint": endpoint, "syncMode": "Push"}
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
        await self.host.create(CLUSTERS, body)
        await asyncio.sleep(1)

    async def put(self, ref: Ref, **labels: str) -> dict:
        meta = {"namespace": ref.namespace, "name": ref.name, "labels": labels}
        return await self.member.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    async def serve_widgets(self) -> None:
        """Serve a kind of two versions, of which v2 is preferred, in the member."""
        versions = [
            {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": {"type": "object"}}}
            for name in ("v1", "v2")
        ]
        names = {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList", "singular": "widget"}
        body = {
            "apiVersion": CRDS.api_version,
            "kind": CRDS.kind,
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
        }
        await self.member.create(CRDS, body)
        await asyncio.sleep(1)


def run_scenario(scenario: Callable[[Harness], Awaitable[None]]) -> None:
    async def run() -> None:
        servers = [ApiServer(Store(), ApiServerSettings(clock=LoopClock())) for _ in range(2)]
        for server in servers:
            await server.start()
        harness = Harness(*servers)
        try:
            await scenario(harness)
        finally:
            await harness.roster.close()
            await harness.cache.close()
            for server in servers:
                await server.stop()

    run_virtually(run())


def test_joined_cluster_has_a_member_and_a_deleted_one_has_not() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        assert harness.roster.names() == ["east"]
        await harness.host.delete(CLUSTERS, "", "east")
        await asyncio.sleep(1)
        assert harness.roster.get("east") is None

    run_scenario(scenario)


def test_changed_address_creates_a_new_client_and_other_changes_do_not() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        await harness.host.patch(CLUSTERS, "", "east", {"spec": {"region": "eu"}})
        await asyncio.sleep(1)
        assert harness.connected == ["https://east"]
        await harness.host.patch(CLUSTERS, "", "east", {"spec": {"apiEndpoint": "https://new"}})
        await asyncio.sleep(1)
        assert harness.connected == ["https://east", "https://new"]

    run_scenario(scenario)


def test_invalid_credentials_affect_only_their_cluster() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("broken", "https://broken")
        await harness.join("later", "https://later")
        await harness.join("east")
        assert harness.roster.names() == ["east"]

    run_scenario(scenario)


def test_managed_objects_are_watched_and_reported() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        member = harness.roster.get("east")
        assert member is not None
        assert member.get_cached(MANAGED) is NOT_FETCHED
        await member.resource("v1", "ConfigMap")
        await harness.put(MANAGED, **{"karmada.io/managed": "true"})
        await harness.put(UNMANAGED)
        assert member.get_cached(MANAGED) is NOT_FETCHED
        await asyncio.sleep(1)
        assert member.get_cached(MANAGED)["metadata"]["name"] == "ours"
        assert member.get_cached(UNMANAGED) is None
        assert harness.changes == [("east", "ours")]

    run_scenario(scenario)


def test_unmanaged_object_is_cached_for_a_limited_time() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        member = harness.roster.get("east")
        assert member is not None
        found = await harness.put(UNMANAGED)
        resource = await member.resource("v1", "ConfigMap")
        member.put_cached(resource, "default", "theirs", found)
        assert member.get_cached(UNMANAGED) == found
        await asyncio.sleep(UNMANAGED_SECONDS + 1)
        assert member.get_cached(UNMANAGED) is None
        member.put_cached(resource, "default", "theirs", found)
        member.put_cached(resource, "default", "theirs", None)
        assert member.get_cached(UNMANAGED) is None

    run_scenario(scenario)


def test_unserved_kind_raises_not_found() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        member = harness.roster.get("east")
        assert member is not None
        with pytest.raises(NotFound, match="the cluster east does not serve"):
            await member.resource("example.com/v1", "Ghost")

    run_scenario(scenario)


def test_no_objects_of_a_kind_that_is_not_served_exist_until_it_is() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        member = harness.roster.get("east")
        assert member is not None
        widget = Ref("example.com/v1", "Widget", "default", "a")
        assert member.get_cached(widget) is NOT_FETCHED
        with pytest.raises(NotFound):
            await member.resource("example.com/v1", "Widget")
        assert member.get_cached(widget) is None
        await harness.serve_widgets()
        await member.resource("example.com/v1", "Widget")
        assert member.get_cached(widget) is NOT_FETCHED

    run_scenario(scenario)


@pytest.mark.parametrize("order", [("v1", "v2"), ("v2", "v1")])
def test_objects_are_cached_in_each_version_that_is_asked_for(order: tuple[str, str]) -> None:
    async def scenario(harness: Harness) -> None:
        await harness.join("east")
        await harness.serve_widgets()
        member = harness.roster.get("east")
        assert member is not None
        for version in order:
            resource = await member.resource(f"example.com/{version}", "Widget")
            assert resource.version == version
            member.get_cached(Ref(resource.api_version, "Widget", "default", "a"))
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"namespace": "default", "name": "a", "labels": {"karmada.io/managed": "true"}},
        }
        await harness.member.create(Resource("example.com", "v1", "widgets", "Widget"), body)
        await asyncio.sleep(1)
        for version in order:
            found = member.get_cached(Ref(f"example.com/{version}", "Widget", "default", "a"))
            assert isinstance(found, dict)
            assert found["apiVersion"] == f"example.com/{version}"
        member.put_cached(await member.resource("example.com/v1", "Widget"), "default", "a", None)
        assert member.get_cached(Ref("example.com/v1", "Widget", "default", "a")) is None
        assert member.get_cached(Ref("example.com/v2", "Widget", "default", "a")) is not None

    run_scenario(scenario)


def test_version_that_cannot_be_read_is_not_taken_for_one_without_the_kind() -> None:
    class Unavailable(LocalClient):
        async def fetch(self, path: str) -> PlainResponse:
            return PlainResponse(503, b"")

    async def scenario(harness: Harness) -> None:
        member = MemberHandle("east", Unavailable(harness.member._server), lambda *_: None)
        with pytest.raises(ApiError, match="HTTP 503"):
            await member.resource("example.com/v1", "Widget")
        assert member.get_cached(Ref("example.com/v1", "Widget", "default", "a")) is NOT_FETCHED
        await member.close()

    run_scenario(scenario)


def test_the_first_list_says_which_managed_objects_exist() -> None:
    async def scenario(harness: Harness) -> None:
        there, missing = Ref("v1", "ConfigMap", "default", "there"), Ref("v1", "ConfigMap", "default", "missing")
        await harness.put(there, **{"karmada.io/managed": "true"})
        await harness.join("east")
        member = harness.roster.get("east")
        resource = await member.resource("v1", "ConfigMap")
        assert member.get_cached(there) is NOT_FETCHED
        assert await member.is_listed(resource, there.namespace, there.name)
        assert not await member.is_listed(resource, missing.namespace, missing.name)
        assert member.get_cached(there)["metadata"]["name"] == "there"

    run_scenario(scenario)


class SavedMaps:
    """The managed ConfigMaps of a member as a process before this one knew them."""

    def __init__(self, entry: CacheEntry) -> None:
        packed = entry.packed()
        assert packed is not None
        saved = (*entry.name, entry.revision, 0, packed.data)
        self._parts = [SavedPart(MAPS, "1", [packed.sample], [saved], {})]

    def resources(self) -> list[Resource]:
        return [MAPS]

    def take(self, resource: Resource) -> Iterator[SavedPart]:
        while self._parts:
            yield self._parts.pop()


def test_saved_objects_of_a_member_count_only_after_they_were_compared_with_it() -> None:
    async def scenario(harness: Harness) -> None:
        older = await harness.put(MANAGED, **{"karmada.io/managed": "true"})
        saved = SavedMaps(CacheEntry(older, None))
        current = await harness.member.patch(MAPS, "default", "ours", {"data": {"a": "b"}})
        client = FaultyMemberClient(harness.member, "east")
        client.cut_off()
        handle = MemberHandle("east", client, harness.record_change, saved=saved)
        await asyncio.sleep(5)
        handle._resources["v1", "ConfigMap"] = MAPS
        assert handle.get_cached(MANAGED) is NOT_FETCHED
        client.restore()
        await asyncio.sleep(60)
        found = handle.get_cached(MANAGED)
        assert isinstance(found, dict)
        assert found["data"] == current["data"]
        assert harness.changes == [("east", "ours")]
        await handle.close()

    run_scenario(scenario)
