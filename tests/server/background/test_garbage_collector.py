"""Garbage collection of dependents."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from server.asgi import AsgiClient, with_asgi_client
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.background.garbage_collector import GarbageCollector
from trimtab.store.store import Store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def make(
    wire: AsgiClient, name: str, owner: dict | None = None, *, blocks: bool = True, **metadata: object
) -> dict:
    body: dict = {"metadata": {"name": name, **metadata}}
    if owner:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
        reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks}
        body["metadata"]["ownerReferences"] = [reference]
    return (await wire("POST", CONFIG_MAPS, body)).json()


async def events_during(wire: AsgiClient, *actions) -> list[tuple[str, str]]:
    """The watch events while the actions run one after another."""
    version = (await wire("GET", CONFIG_MAPS)).json()["metadata"]["resourceVersion"]
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=10"
    watching = asyncio.ensure_future(wire("GET", path))
    await asyncio.sleep(0.1)
    for action in actions:
        await action()
        await asyncio.sleep(1)
    events = [orjson.loads(line) for line in (await watching).body.splitlines()]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def delete(wire: AsgiClient, name: str, policy: str):
    async def action() -> None:
        assert (await wire("DELETE", f"{CONFIG_MAPS}/{name}", {"propagationPolicy": policy})).status == 200

    return action


def test_background_deletion_removes_the_owner_first() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await make(wire, "child", await make(wire, "owner"))
        events = await events_during(wire, delete(wire, "owner", "Background"))
        assert events == [("DELETED", "owner"), ("DELETED", "child")]

    with_asgi_client(scenario)


def test_foreground_deletion_waits_for_dependents() -> None:
    async def scenario(wire: AsgiClient) -> None:
        owner = await make(wire, "owner")
        child = await make(wire, "child", owner)
        await make(wire, "grandchild", child)
        events = await events_during(wire, delete(wire, "owner", "Foreground"))
        assert events[0] == ("MODIFIED", "owner")
        deleted = [name for kind, name in events if kind == "DELETED"]
        assert deleted == ["grandchild", "child", "owner"]

    with_asgi_client(scenario)


def test_dependent_with_a_finalizer_blocks_foreground_deletion() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await make(wire, "child", await make(wire, "owner"), finalizers=["example.com/x"])

        async def release() -> None:
            assert (await wire("GET", f"{CONFIG_MAPS}/owner")).status == 200
            patch = [{"op": "remove", "path": "/metadata/finalizers"}]
            await wire("PATCH", f"{CONFIG_MAPS}/child", patch, content_type="application/json-patch+json")

        events = await events_during(wire, delete(wire, "owner", "Foreground"), release)
        assert [name for kind, name in events if kind == "DELETED"] == ["child", "owner"]

    with_asgi_client(scenario)


def test_orphaned_dependents_stay_without_owner() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await make(wire, "child", await make(wire, "owner"))
        events = await events_during(wire, delete(wire, "owner", "Orphan"))
        assert events == [("MODIFIED", "owner"), ("MODIFIED", "child"), ("DELETED", "owner")]

    with_asgi_client(scenario)


def test_dependent_stays_while_one_of_its_owners_exists() -> None:
    async def scenario(wire: AsgiClient) -> None:
        first, second = await make(wire, "first"), await make(wire, "second")
        child = await make(wire, "child", first)
        more = {"apiVersion": "v1", "kind": "ConfigMap", "name": "second", "uid": second["metadata"]["uid"]}
        child["metadata"]["ownerReferences"].append(more)
        await wire("PUT", f"{CONFIG_MAPS}/child", child)
        events = await events_during(wire, delete(wire, "first", "Background"), delete(wire, "second", "Background"))
        assert events == [("DELETED", "first"), ("DELETED", "second"), ("DELETED", "child")]

    with_asgi_client(scenario)


def test_foreground_deletion_releases_dependents_that_have_another_owner() -> None:
    async def scenario(wire: AsgiClient) -> None:
        first, second = await make(wire, "first"), await make(wire, "second")
        child = await make(wire, "child", first)
        more = {"apiVersion": "v1", "kind": "ConfigMap", "name": "second", "uid": second["metadata"]["uid"]}
        child["metadata"]["ownerReferences"].append(more)
        await wire("PUT", f"{CONFIG_MAPS}/child", child)
        events = await events_during(wire, delete(wire, "first", "Foreground"))
        assert events == [("MODIFIED", "first"), ("MODIFIED", "child"), ("DELETED", "first")]
        kept = (await wire("GET", f"{CONFIG_MAPS}/child")).json()["metadata"]
        assert [one["name"] for one in kept["ownerReferences"]] == ["second"]

    with_asgi_client(scenario)


def test_dependent_of_a_missing_owner_is_deleted() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await make(wire, "child", {"metadata": {"name": "missing", "uid": "missing"}})
        await asyncio.sleep(2)
        assert (await wire("GET", f"{CONFIG_MAPS}/child")).status == 404

    with_asgi_client(scenario)


def test_dependent_of_an_unserved_kind_stays() -> None:
    async def scenario(wire: AsgiClient) -> None:
        owner = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "r", "uid": "r"}
        body = {"metadata": {"name": "child", "ownerReferences": [owner]}}
        assert (await wire("POST", CONFIG_MAPS, body)).status == 201
        await asyncio.sleep(2)
        assert (await wire("GET", f"{CONFIG_MAPS}/child")).status == 200

    with_asgi_client(scenario)


def test_an_owner_deleted_while_the_collector_was_stopped_takes_its_dependents_along() -> None:
    async def scenario(wire: AsgiClient) -> None:
        collector = GarbageCollector(wire.server.resource_store)

        async def run_for_a_moment() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(collector.run(), 2)

        await make(wire, "child", await make(wire, "owner"))
        await run_for_a_moment()
        assert (await wire("GET", f"{CONFIG_MAPS}/child")).status == 200
        await delete(wire, "owner", "Background")()
        await run_for_a_moment()  # as after a watch that has expired
        assert (await wire("GET", f"{CONFIG_MAPS}/child")).status == 404

    with_asgi_client(scenario, garbage_collection=False)


async def namespace_exists(server: ApiServer, seconds: float) -> bool:
    """Whether the namespace `shop` and its object are still there after a while."""
    await asyncio.sleep(seconds)
    found = [server.store.get(key) for key in ("/registry/core/namespaces/shop", "/registry/core/configmaps/shop/c")]
    assert len({one is None for one in found}) == 1
    return found[0] is not None


def run_with_namespace(scenario: Callable[[ApiServer, AsgiClient], Awaitable[None]], *plugins: Any) -> None:
    async def run() -> None:
        settings = ApiServerSettings(clock=LoopClock(), namespace_grace_seconds=5.0, plugins=plugins)
        server = ApiServer(Store(), settings)
        await server.start()
        wire = AsgiClient(server)
        await wire("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        protected = {"resourcetemplate.karmada.io/deletion-protected": "Always"}
        body = {"metadata": {"name": "c", "labels": protected}}
        await wire("POST", "/api/v1/namespaces/shop/configmaps", body)
        await wire("DELETE", "/api/v1/namespaces/shop")
        await scenario(server, wire)
        await server.stop()

    run_virtually(run())


def test_a_deleted_namespace_keeps_its_objects_for_a_moment() -> None:
    async def scenario(server: ApiServer, wire: AsgiClient) -> None:
        assert await namespace_exists(server, 4)
        assert not await namespace_exists(server, 3)

    run_with_namespace(scenario)


def test_a_protected_object_keeps_its_namespace_and_both_go_a_moment_after_the_protection() -> None:
    async def scenario(server: ApiServer, wire: AsgiClient) -> None:
        assert await namespace_exists(server, 30)
        patch = [{"op": "remove", "path": "/metadata/labels"}]
        kind = "application/json-patch+json"
        assert (await wire("PATCH", "/api/v1/namespaces/shop/configmaps/c", patch, content_type=kind)).status == 200
        assert not await namespace_exists(server, 7)

    run_with_namespace(scenario, PeerWebhooks())
