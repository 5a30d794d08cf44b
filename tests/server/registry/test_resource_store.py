"""Lists, updates, dry runs and concurrent writes."""

import asyncio
from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.config_maps import CONFIG_MAPS, config_map, create_config_maps
from trimtab.server.apiserver import ApiServer
from trimtab.store.store import Store


def test_all_pages_of_a_list_show_one_revision() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 5)
        first = (await wire("GET", f"{CONFIG_MAPS}?limit=2")).json()
        assert first["metadata"]["remainingItemCount"] == 3
        await wire("DELETE", f"{CONFIG_MAPS}/c3")
        await wire("POST", CONFIG_MAPS, config_map("c9"))
        token = first["metadata"]["continue"]
        rest = (await wire("GET", f"{CONFIG_MAPS}?limit=9&continue={token}")).json()
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3", "c4"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    with_asgi_client(scenario)


def test_expired_list_can_be_continued_inconsistently() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 4)
        token = (await wire("GET", f"{CONFIG_MAPS}?limit=1")).json()["metadata"]["continue"]
        await wire("DELETE", f"{CONFIG_MAPS}/c2")
        wire.server.store.compact(wire.server.store.revision)
        expired = await wire("GET", f"{CONFIG_MAPS}?limit=9&continue={token}")
        assert (expired.status, expired.json()["reason"]) == (410, "Expired")
        inconsistent = expired.json()["metadata"]["continue"]
        rest = (await wire("GET", f"{CONFIG_MAPS}?limit=9&continue={inconsistent}")).json()
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c1", "c3"]

    with_asgi_client(scenario)


@pytest.mark.parametrize("token", ["garbage", "e30", "!!!"])
def test_invalid_continue_token_is_refused(token: str) -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")).status == 400

    with_asgi_client(scenario)


def test_update_without_changes_keeps_the_resource_version() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 1)
        before = (await wire("GET", f"{CONFIG_MAPS}/c0")).json()
        for body in ({}, {"data": {"k": "0"}}):
            response = await wire("PATCH", f"{CONFIG_MAPS}/c0", body, content_type="application/merge-patch+json")
            assert response.json()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert (await wire("PUT", f"{CONFIG_MAPS}/c0", before)).json() == before

    with_asgi_client(scenario)


def test_dry_run_creates_nothing() -> None:
    async def scenario(wire: AsgiClient) -> None:
        revision = wire.server.store.revision
        response = await wire("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("x"))
        assert (response.status, "resourceVersion" in response.json()["metadata"]) == (201, False)
        assert wire.server.store.revision == revision

    with_asgi_client(scenario)


def test_concurrent_patches_of_one_object_all_succeed(tmp_path) -> None:
    async def scenario() -> None:
        server = ApiServer(Store.open(tmp_path))
        await server.start()
        wire = AsgiClient(server)
        await wire("POST", CONFIG_MAPS, config_map("shared"))
        merge = {"content_type": "application/merge-patch+json"}
        writes = [wire("PATCH", f"{CONFIG_MAPS}/shared", {"data": {f"k{n}": "v"}}, **merge) for n in range(40)]
        assert {response.status for response in await asyncio.gather(*writes)} == {200}
        assert len((await wire("GET", f"{CONFIG_MAPS}/shared")).json()["data"]) == 40
        await server.stop()

    asyncio.run(scenario())


class WritesBetween:
    """An admission plugin during which another client writes the same object, once."""

    client: AsgiClient | None = None

    async def validate(self, attributes: Any, obj: Any, old: Any) -> None:
        if self.client is not None and attributes.operation == "UPDATE":
            client, self.client = self.client, None
            path = "/api/v1/namespaces/default/configmaps/a"
            patch = {"data": {"other": "kept"}}
            assert (await client("PATCH", path, patch, content_type="application/merge-patch+json")).status == 200


def test_update_that_names_its_version_fails_when_another_write_comes_between_and_a_patch_is_repeated() -> None:
    plugin, path = WritesBetween(), "/api/v1/namespaces/default/configmaps"

    async def scenario(client: AsgiClient) -> None:
        read = (await client("POST", path, {"metadata": {"name": "a"}, "data": {"k": "old"}})).json()
        plugin.client = client
        refused = await client("PUT", f"{path}/a", {**read, "data": {"k": "new"}})
        assert (refused.status, refused.json()["reason"]) == (409, "Conflict")
        plugin.client = client
        patch = {"data": {"k": "new"}}
        assert (await client("PATCH", f"{path}/a", patch, content_type="application/merge-patch+json")).status == 200
        assert (await client("GET", f"{path}/a")).json()["data"] == {"k": "new", "other": "kept"}

    with_asgi_client(scenario, plugins=(plugin,))
