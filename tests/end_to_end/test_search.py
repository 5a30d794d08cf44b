"""Search and its proxy: one cache over all members, which follows ResourceRegistries and Clusters."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import ApiError, BadRequest, Expired, Forbidden, MethodNotAllowed, NotFound
from trimtab.members import search_api
from trimtab.members.cache_revisions import SOURCE_ANNOTATION, decode_revisions
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import SYSTEM, User
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.simulate.fleet import uniform_fleet
from trimtab.store.store import Store

REGISTRIES = Resource("search.karmada.io", "v1alpha1", "resourceregistries", "ResourceRegistry", namespaced=False)
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
RBAC = "rbac.authorization.k8s.io"
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SEARCH = "/apis/search.karmada.io/v1alpha1/search/cache"
PROXY = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"


class Searched:
    """A fleet of two members with a client for its search."""

    def __init__(self, fleet: EmbeddedFleet) -> None:
        self.fleet = fleet

    async def register(self, name: str, target: dict[str, Any], *selectors: dict[str, str]) -> None:
        body = {"apiVersion": REGISTRIES.api_version, "kind": "ResourceRegistry", "metadata": {"name": name}}
        spec = {"targetCluster": target, "resourceSelectors": list(selectors)}
        await self.fleet.client.create(REGISTRIES, {**body, "spec": spec})
        await asyncio.sleep(1)

    async def request(
        self, method: str, path: str, body: Any = None, *, user: User = SYSTEM, accept: str = "", **query: str
    ) -> Any:
        headers = {"content-type": "application/json"} | ({"accept": accept} if accept else {})
        sent = orjson.dumps(body) if body is not None else b""
        request = Request(method, path, query, headers, body=sent, certificate_user=user)
        answer = await self.fleet.host.handler.handle(request)
        if isinstance(answer, StreamingResponse):
            return answer.chunks
        assert isinstance(answer, Response)
        return orjson.loads(answer.body)

    async def names(self, path: str, **query: str) -> list[str]:
        found = await self.request("GET", path, **query)
        return [item["metadata"]["name"] for item in found["items"]]


@asynccontextmanager
async def searched_fleet(profile: Profile) -> AsyncIterator[Searched]:
    host = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await host.start()
    fleet = EmbeddedFleet(uniform_fleet(2, 2), host=host, clock=LoopClock(), profile=profile)
    await fleet.start()
    await asyncio.sleep(30)
    try:
        yield Searched(fleet)
    finally:
        await fleet.stop()
        await host.stop()


def on_fleet(check: Callable[[Searched], Awaitable[None]], profile: Profile = TRIMTAB) -> None:
    async def run() -> None:
        async with searched_fleet(profile) as searched:
            await check(searched)

    run_virtually(run())


NODE = {"apiVersion": "v1", "kind": "Node"}
POD = {"apiVersion": "v1", "kind": "Pod"}
BOTH: dict[str, Any] = {}


def test_search_finds_the_objects_of_the_selected_clusters_and_names_their_cluster() -> None:
    async def check(searched: Searched) -> None:
        assert await searched.names(f"{SEARCH}/api/v1/nodes") == []
        await searched.register("one", {"clusterNames": ["member1"]}, NODE)
        found = await searched.request("GET", f"{SEARCH}/api/v1/nodes")
        assert (found["kind"], found["apiVersion"]) == ("NodeList", "v1")
        assert [item["metadata"]["name"] for item in found["items"]] == ["member1-node-1", "member1-node-2"]
        assert {item["metadata"]["annotations"][SOURCE_ANNOTATION] for item in found["items"]} == {"member1"}
        assert await searched.names(f"{SEARCH}/api/v1/nodes/member1-node-2") == ["member1-node-2"]
        await searched.register("two", BOTH, NODE)
        assert len(await searched.names(f"{SEARCH}/api/v1/nodes")) == 4
        await searched.fleet.client.delete(REGISTRIES, "", "two")
        await searched.fleet.client.delete(REGISTRIES, "", "one")
        await asyncio.sleep(1)
        assert await searched.names(f"{SEARCH}/api/v1/nodes") == []

    on_fleet(check)


def test_search_follows_the_labels_and_the_readiness_of_clusters() -> None:
    async def check(searched: Searched) -> None:
        labels = {"labelSelector": {"matchExpressions": [{"key": "search", "operator": "Exists"}]}}
        await searched.register("labelled", labels, NODE)
        assert await searched.names(f"{SEARCH}/api/v1/nodes") == []
        await searched.fleet.client.patch(CLUSTERS, "", "member2", {"metadata": {"labels": {"search": "yes"}}})
        await asyncio.sleep(1)
        assert await searched.names(f"{SEARCH}/api/v1/nodes") == ["member2-node-1", "member2-node-2"]
        searched.fleet.world["member2"].stop_api()
        await asyncio.sleep(120)
        assert await searched.names(f"{SEARCH}/api/v1/nodes") == []

    on_fleet(check)


def test_search_is_limited_to_the_namespaces_of_all_registries() -> None:
    async def check(searched: Searched) -> None:
        member = searched.fleet.world["member1"].client
        for namespace in ("a", "b", "c"):
            await member.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"in-{namespace}", "namespace": namespace},
            }
            await member.create(SECRETS, secret)
        for namespace in ("a", "b"):
            await searched.register(namespace, BOTH, {"apiVersion": "v1", "kind": "Secret", "namespace": namespace})
        assert await searched.names(f"{PROXY}/api/v1/secrets") == ["in-a", "in-b"]
        assert await searched.names(f"{PROXY}/api/v1/namespaces/b/secrets") == ["in-b"]
        with pytest.raises(NotFound):
            await searched.request("GET", f"{PROXY}/api/v1/namespaces/c/secrets/in-c")
        await searched.register("all", BOTH, {"apiVersion": "v1", "kind": "Secret"})
        assert await searched.names(f"{PROXY}/api/v1/namespaces/c/secrets") == ["in-c"]

    on_fleet(check)


def test_search_refuses_what_it_does_not_know() -> None:
    async def check(searched: Searched) -> None:
        for path, fault in (("/api/v1", BadRequest), ("/apis/none.example/v1/things", NotFound)):
            with pytest.raises(fault):
                await searched.request("GET", SEARCH + path)
        with pytest.raises(ApiError):
            await searched.request("POST", f"{SEARCH}/api/v1/nodes", {})
        with pytest.raises(ApiError, match="forbidden"):
            await searched.request("GET", f"{SEARCH}/api/v1/nodes", user=User("somebody", ()))

    on_fleet(check)


READER = User("reader", ())


async def allow_search(searched: Searched, *, nodes: bool) -> None:
    """Let READER search, and read nodes in the control plane if wanted."""
    rules = [{"apiGroups": ["search.karmada.io"], "resources": ["search/api", "proxying/proxy"], "verbs": ["*"]}]
    if nodes:
        rules.append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]})
    for name, kind, more in (
        ("ClusterRole", "clusterroles", {"rules": rules}),
        (
            "ClusterRoleBinding",
            "clusterrolebindings",
            {
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": f"reader-{nodes}"},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": READER.name}],
            },
        ),
    ):
        body = {"apiVersion": f"{RBAC}/v1", "kind": name, "metadata": {"name": f"reader-{nodes}"}, **more}
        await searched.fleet.client.create(Resource(RBAC, "v1", kind, name, namespaced=False), body)


def test_reading_through_the_search_needs_the_right_to_read_in_the_control_plane() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("all", BOTH, NODE)
        await allow_search(searched, nodes=False)
        paths = (f"{SEARCH}/api/v1/nodes", f"{PROXY}/api/v1/nodes", f"{PROXY}/api/v1/nodes/member1-node-1")
        for path in paths:
            with pytest.raises(Forbidden, match="nodes"):
                await searched.request("GET", path, user=READER)
        with pytest.raises(Forbidden, match="cannot watch"):
            await searched.request("GET", paths[1], user=READER, watch="true")
        await allow_search(searched, nodes=True)
        for path in paths:
            assert (await searched.request("GET", path, user=READER))["kind"].startswith("Node")

    on_fleet(check)


def test_in_the_profile_upstream_the_right_to_search_is_enough() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("all", BOTH, NODE)
        await allow_search(searched, nodes=False)
        assert len((await searched.request("GET", f"{SEARCH}/api/v1/nodes", user=READER))["items"]) == 4

    on_fleet(check, UPSTREAM)


def test_proxy_refuses_malformed_requests_before_it_answers() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("all", BOTH, NODE)
        tokens = [base64.urlsafe_b64encode(text).decode() for text in (b"5", b"null", b"[1]", b"{}", b"[" * 5000)]
        queries: list[dict[str, str]] = [
            *({"limit": "1", "continue": token} for token in tokens),
            {"limit": "9" * 5000},
            {"labelSelector": "((("},
            {"watch": "true", "timeoutSeconds": "9" * 400},
            {"watch": "true", "labelSelector": "((("},
            {"watch": "true", "fieldSelector": "spec.unknown=1"},
            {"watch": "true", "resourceVersion": "x"},
        ]
        for query in queries:
            with pytest.raises(BadRequest):
                await searched.request("GET", f"{PROXY}/api/v1/nodes", **query)

    on_fleet(check)


def test_proxy_leaves_malformed_objects_to_the_cluster() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("all", BOTH, NODE)
        for metadata in (5, {"name": "member1-node-1", "annotations": 5}):
            body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
            with pytest.raises(BadRequest, match="cannot unmarshal number"):
                await searched.request("PUT", f"{PROXY}/api/v1/nodes/member1-node-1", body)

    on_fleet(check)


def test_a_large_list_is_the_same_when_it_is_built_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(searched: Searched) -> None:
        await searched.register("all", BOTH, NODE)
        paths = (f"{SEARCH}/api/v1/nodes", f"{PROXY}/api/v1/nodes")
        before = [await searched.request("GET", path) for path in paths]
        monkeypatch.setattr(search_api, "MAX_OBJECTS_IN_LOOP", 1)
        after = [await searched.request("GET", path) for path in paths]
        assert [found["items"] for found in after] == [found["items"] for found in before]

    on_fleet(check)


def test_proxy_reads_cached_kinds_in_pages_and_asks_the_control_plane_for_others() -> None:
    async def check(searched: Searched) -> None:
        assert await searched.names(f"{PROXY}/api/v1/nodes") == []  # not cached: the control plane has no nodes
        assert "member1" in await searched.names(f"{PROXY}/apis/cluster.karmada.io/v1alpha1/clusters")
        await searched.register("nodes", BOTH, NODE)
        first = await searched.request("GET", f"{PROXY}/api/v1/nodes", limit="1")
        assert first["metadata"]["remainingItemCount"] == 3
        rest = await searched.request(
            "GET", f"{PROXY}/api/v1/nodes", limit="9", **{"continue": first["metadata"]["continue"]}
        )
        names = [item["metadata"]["name"] for item in (*first["items"], *rest["items"])]
        assert names == ["member1-node-1", "member1-node-2", "member2-node-1", "member2-node-2"]
        assert "continue" not in rest["metadata"]
        found = await searched.names(f"{PROXY}/api/v1/nodes", fieldSelector="metadata.name=member2-node-1")
        assert found == ["member2-node-1"]
        table = await searched.request(
            "GET", f"{PROXY}/api/v1/nodes", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
        )
        assert [row["cells"][0] for row in table["rows"]] == names

    on_fleet(check)


def test_proxy_forwards_changes_to_the_cluster_that_has_the_object() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("nodes", BOTH, NODE)
        path = f"{PROXY}/api/v1/nodes/member2-node-1"
        node = await searched.request("GET", path)
        assert node["metadata"]["annotations"][SOURCE_ANNOTATION] == "member2"
        assert list(decode_revisions(node["metadata"]["resourceVersion"])) == ["member2"]
        node["metadata"]["labels"]["changed"] = "yes"
        await searched.request("PUT", path, node)
        stored = await searched.fleet.world["member2"].client.get(NODES, "", "member2-node-1")
        assert stored["metadata"]["labels"]["changed"] == "yes"
        assert SOURCE_ANNOTATION not in stored["metadata"].get("annotations", {})
        with pytest.raises(ApiError):  # the version is an older one now
            await searched.request("PUT", path, node)
        with pytest.raises(MethodNotAllowed):
            await searched.request("POST", f"{PROXY}/api/v1/nodes", node)

    on_fleet(check)


def test_proxy_watches_all_clusters_from_the_version_of_a_list() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("nodes", BOTH, NODE)
        listed = await searched.request("GET", f"{PROXY}/api/v1/nodes")
        for name in ("member1", "member2"):
            change = {"metadata": {"annotations": {"seen": name}}}
            await searched.fleet.world[name].client.patch(NODES, "", f"{name}-node-1", change)
        events = await searched.request(
            "GET", f"{PROXY}/api/v1/nodes", watch="1", resourceVersion=listed["metadata"]["resourceVersion"]
        )
        seen: dict[str, str] = {}
        last = ""
        async for chunk in events:
            event = orjson.loads(chunk)
            metadata = event["object"]["metadata"]
            last = metadata["resourceVersion"]
            if metadata["annotations"].get("seen"):
                seen[metadata["annotations"][SOURCE_ANNOTATION]] = metadata["annotations"]["seen"]
            if len(seen) == 2:
                break
        await events.aclose()
        assert seen == {"member1": "member1", "member2": "member2"}
        assert sorted(decode_revisions(last)) == ["member1", "member2"]

    on_fleet(check)


def test_watch_ends_when_other_clusters_are_cached_and_a_version_of_a_lost_cluster_is_expired() -> None:
    async def check(searched: Searched) -> None:
        await searched.register("nodes", BOTH, NODE)
        listed = await searched.request("GET", f"{PROXY}/api/v1/nodes")
        version = listed["metadata"]["resourceVersion"]
        events = await searched.request("GET", f"{PROXY}/api/v1/nodes", watch="1", resourceVersion=version)
        reading = asyncio.get_running_loop().create_task(drain(events))
        await asyncio.sleep(1)
        await searched.fleet.client.patch(
            REGISTRIES, "", "nodes", {"spec": {"targetCluster": {"clusterNames": ["member1"]}}}
        )
        await asyncio.wait_for(reading, 10)
        again = await searched.request("GET", f"{PROXY}/api/v1/nodes", watch="1", resourceVersion=version)
        (line,) = await drain(again)
        assert orjson.loads(line)["object"]["code"] == Expired.code

    on_fleet(check)


async def drain(chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in chunks]
