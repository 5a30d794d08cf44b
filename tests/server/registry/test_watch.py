"""Watch requests."""

import asyncio
import base64

import orjson

from server.asgi import AsgiClient, with_asgi_client
from server.config_maps import CONFIG_MAPS, config_map, create_config_maps


def lines(body: bytes) -> list[dict]:
    return [orjson.loads(line) for line in body.splitlines()]


def test_watch_sends_existing_objects_and_then_changes() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 1)
        watching = asyncio.ensure_future(wire("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=5"))
        await asyncio.sleep(1)
        await wire("POST", CONFIG_MAPS, config_map("new"))
        await wire("PATCH", f"{CONFIG_MAPS}/new", {"data": {"a": "b"}}, content_type="application/merge-patch+json")
        await wire("DELETE", f"{CONFIG_MAPS}/new")
        events = [(event["type"], event["object"]["metadata"]["name"]) for event in lines((await watching).body)]
        assert events == [("ADDED", "c0"), ("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]

    with_asgi_client(scenario)


def test_object_that_stops_matching_is_deleted_from_the_watch() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 1)
        watching = asyncio.ensure_future(wire("GET", f"{CONFIG_MAPS}?watch=1&labelSelector=n%3Dc0&timeoutSeconds=5"))
        await asyncio.sleep(1)
        relabel = {"metadata": {"labels": {"n": "other"}}}
        await wire("PATCH", f"{CONFIG_MAPS}/c0", relabel, content_type="application/merge-patch+json")
        events = lines((await watching).body)
        assert [event["type"] for event in events] == ["ADDED", "DELETED"]
        assert events[1]["object"]["metadata"]["labels"] == {"n": "c0"}
        assert int(events[1]["object"]["metadata"]["resourceVersion"]) > int(
            events[0]["object"]["metadata"]["resourceVersion"]
        )

    with_asgi_client(scenario)


def test_watch_from_a_compacted_version_is_gone() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 3)
        wire.server.store.compact(wire.server.store.revision)
        response = await wire("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=2&timeoutSeconds=5")
        (event,) = lines(response.body)
        assert (response.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)

    with_asgi_client(scenario)


STREAMED = f"{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_initial_events_end_with_a_bookmark() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 2)
        events = lines((await wire("GET", STREAMED)).body)
        assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
        assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    with_asgi_client(scenario)


def test_streamed_list_may_be_a_table() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 2)
        *_, last = lines((await wire("GET", STREAMED, accept=f"{TABLE},application/json")).body)
        assert last["object"]["kind"] == "Table"
        (row,) = last["object"]["rows"]
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    with_asgi_client(scenario)


def test_old_streamed_list_is_no_table_and_ends_with_an_empty_list() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 2)
        *_, last = lines((await wire("GET", STREAMED, accept=f"{TABLE},application/json")).body)
        blueprint = last["object"]["metadata"]["annotations"]["kubernetes.io/initial-events-list-blueprint"]
        assert orjson.loads(base64.b64decode(blueprint)) == {
            "kind": "ConfigMapList",
            "apiVersion": "v1",
            "metadata": {},
            "items": [],
        }
        assert (await wire("GET", STREAMED, accept=TABLE)).status == 406

    with_asgi_client(scenario, old_streamed_lists=True)
