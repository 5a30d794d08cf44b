"""The ASGI application: slow watchers, shutdown, response formats."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from server.asgi import ADMIN, AsgiClient, with_asgi_client
from trimtab.api.limits import MAX_FIELD_PROBLEMS, MAX_WARNING_CHARACTERS, MAX_WARNINGS
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.flowcontrol.controller import MAX_WRITE_PAUSE_SECONDS, FlowLimits
from trimtab.store.store import Store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def scope_of(path: str, query: str = "") -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "server": ("127.0.0.1", 6443),
        "certificate_user": ADMIN,
    }


def test_watcher_that_stops_reading_blocks_no_writer_and_is_disconnected() -> None:
    async def scenario(client: AsgiClient) -> None:
        sent: list[bytes] = []
        body_sent = False

        async def receive() -> dict[str, Any]:
            nonlocal body_sent
            if not body_sent:
                body_sent = True
                return {"type": "http.request", "body": b""}
            await asyncio.sleep(100_000)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message.get("body"):
                sent.append(message["body"])
                await asyncio.sleep(100_000)  # the connection is full

        watching = asyncio.ensure_future(client.server.app(scope_of(CONFIG_MAPS, "watch=1"), receive, send))
        await asyncio.sleep(1)
        for index in range(50):
            assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": f"c{index}"}})).status == 201
        await asyncio.wait_for(watching, 120)
        assert len(sent) == 1
        assert client.server.app.watcher_count == 0

    with_asgi_client(scenario)


def test_end_streams_ends_open_watches() -> None:
    async def scenario(client: AsgiClient) -> None:
        watching = asyncio.ensure_future(client("GET", f"{CONFIG_MAPS}?watch=1"))
        await asyncio.sleep(1)
        assert client.server.app.watcher_count == 1
        client.server.app.end_streams()
        assert (await asyncio.wait_for(watching, 1)).status == 200

    with_asgi_client(scenario)


def test_curl_gets_indented_json() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert b'\n  "kind"' in (await client("GET", CONFIG_MAPS, user_agent="curl/8")).body
        assert b"\n  " not in (await client("GET", CONFIG_MAPS, user_agent="kubectl/1")).body
        assert b'\n  "kind"' in (await client("GET", f"{CONFIG_MAPS}?pretty=true")).body

    with_asgi_client(scenario)


def test_accept_yaml_returns_yaml() -> None:
    async def scenario(client: AsgiClient) -> None:
        body = b"metadata:\n  name: y\ndata:\n  day: '2020-01-01'\n"
        response = await client("POST", CONFIG_MAPS, body, content_type="application/yaml", accept="application/yaml")
        assert (response.status, response.headers["content-type"]) == (201, "application/yaml")
        assert b"name: y" in response.body

    with_asgi_client(scenario)


def test_large_response_is_compressed_when_client_accepts_gzip() -> None:
    async def scenario(client: AsgiClient) -> None:
        for index in range(40):
            await client("POST", CONFIG_MAPS, {"metadata": {"name": f"c{index}"}, "data": {"k": "v" * 8000}})
        plain = await client("GET", CONFIG_MAPS)
        compressed = await client("GET", CONFIG_MAPS, accept_encoding="gzip")
        assert compressed.headers["content-encoding"] == "gzip"
        assert len(compressed.body) < len(plain.body) / 5

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/" + "x" * 8_191, 403),
        ("/" + "x" * 8_192, 414),
        ("/" + "x" * 900_000, 414),
        ("/api/v1/pods?labelSelector=" + "x" * 20_000, 403),
        ("/api/v1/pods?labelSelector=" + "x" * 70_000, 414),
    ],
)
def test_request_line_is_bounded(path: str, code: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        response = await client("GET", path, user=None)
        assert (response.status, response.json()["code"]) == (code, code)
        assert len(response.body) < 10_000 or code == 403

    with_asgi_client(scenario)


def test_headers_and_parameters_beyond_their_limits_are_refused_with_a_status() -> None:
    async def scenario(client: AsgiClient) -> None:
        for accept in ("," * 60_000, "a/b," * 100, "application/yaml," * 100):
            refused = await client("GET", CONFIG_MAPS, accept=accept)
            assert (refused.status, refused.json()["reason"]) == (400, "BadRequest")
            assert "the Accept header" in refused.json()["message"]
        refused = await client("GET", f"{CONFIG_MAPS}?" + "a=b&" * 1_000)
        assert "the query has more than" in refused.json()["message"]
        assert (await client("GET", CONFIG_MAPS, accept=",,application/json,,")).status == 200

    with_asgi_client(scenario)


def test_headers_are_bounded() -> None:
    async def scenario(client: AsgiClient) -> None:
        response = await client("GET", "/version", user=None, accept="x" * 70_000)
        assert (response.status, response.json()["reason"]) == (431, "RequestHeaderFieldsTooLarge")
        many = {f"x_{number}": "" for number in range(1_001)}
        assert (await client("GET", "/version", user=None, **many)).status == 431

    with_asgi_client(scenario)


def test_distinct_long_paths_of_anonymous_callers_do_not_stay_in_memory() -> None:
    async def scenario(client: AsgiClient) -> None:
        async def send(numbers: range) -> None:
            for number in numbers:
                await client("GET", f"/{number}/" + "x" * 8_000, user=None)
                await client(
                    "GET",
                    f"/api/v1/namespaces/{number}{'x' * 5_000}/pods?labelSelector=a{number}" + "x" * 20_000,
                    user=None,
                )

        await send(range(10))
        tracemalloc.start()
        try:
            await send(range(10, 200))
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 2_000_000
        finally:
            tracemalloc.stop()

    with_asgi_client(scenario)


def test_many_unknown_fields_give_few_warning_headers() -> None:
    async def scenario(client: AsgiClient) -> None:
        body = {"metadata": {"name": "a"}, **{f"field{i}": 1 for i in range(20_000)}}
        created = await client("POST", CONFIG_MAPS, body)
        warnings = created.headers["warning"].split("\n")
        assert created.status == 201
        assert warnings[0] == '299 - "unknown field \\"field0\\""'
        assert len(warnings) == MAX_WARNINGS
        strict = await client("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", {**body, "metadata": {"name": "b"}})
        assert strict.status == 400
        assert strict.json()["message"].count("unknown field") == MAX_FIELD_PROBLEMS
        long = {"metadata": {"name": "c"}, **{f"{'x' * 1000}{i}": 1 for i in range(100)}}
        created = await client("POST", CONFIG_MAPS, long)
        assert sum(map(len, created.headers["warning"].split("\n"))) < 2 * MAX_WARNING_CHARACTERS

    with_asgi_client(scenario)


def test_only_writes_of_an_administrator_pause_while_the_controllers_lag() -> None:
    async def scenario() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock(), flow_control=FlowLimits()))
        await server.start()
        client, time = AsgiClient(server), asyncio.get_running_loop().time
        assert server.flow_control is not None
        server.flow_control.follow_controllers(lambda: 60.0)
        try:
            begun = time()
            assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": "late"}})).status == 201
            assert time() - begun == pytest.approx(MAX_WRITE_PAUSE_SECONDS, abs=0.02)
            begun = time()
            assert (await client("GET", f"{CONFIG_MAPS}/late")).status == 200
            assert (await client("DELETE", f"{CONFIG_MAPS}/late")).status == 200
            assert time() - begun == pytest.approx(0, abs=0.02)
        finally:
            await server.stop()

    run_virtually(scenario())
