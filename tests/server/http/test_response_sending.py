"""Large responses are sent in parts, and others have turns between them."""

import asyncio
import gzip
import itertools
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.http.test_asgi import CONFIG_MAPS, scope_of
from server.http.test_exchange import SlowClient
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.http import response_sending
from trimtab.server.request import parts
from trimtab.server.request.body_worker import BodyWorker
from trimtab.server.request.parts import PART_BYTES, PART_SECONDS

ADMIN = User("admin", (MASTERS, AUTHENTICATED))
OBJECTS = 300


async def fill(client: AsgiClient, size: int = 1000) -> None:
    for number in range(OBJECTS):
        body = {"metadata": {"name": f"c{number}"}, "data": {"k": "v" * size}}
        assert (await client("POST", CONFIG_MAPS, body)).status == 201


async def turns_during_list(client: AsgiClient, accept: str, query: str = "") -> tuple[int, list[bytes]]:
    """How often other work ran between the parts of a list, and the parts."""
    other, connection = [0], SlowClient(b"")
    sent_at: list[int] = []
    scope = {**scope_of(CONFIG_MAPS, query), "certificate_user": ADMIN, "connection": connection}
    scope["headers"] = [(b"accept", accept.encode())]

    async def send(message: dict[str, Any]) -> None:
        sent_at.append(other[0])
        await connection.send(message)

    async def count() -> None:
        for _ in range(5000):  # then virtual time goes on, so that a watch ends
            other[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await client.server.app(scope, connection.receive, send)
    counting.cancel()
    bodies = [message["body"] for message in connection.sent[1:] if message.get("body")]
    return sent_at[-1] - sent_at[0], bodies


def end_parts_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a part end after two of its items, however fast the machine is."""
    readings = itertools.count(step=PART_SECONDS / 2)
    time = SimpleNamespace(thread_time=lambda: next(readings), monotonic=itertools.count().__next__)
    monkeypatch.setattr(parts, "time", time)


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
    ],
)
def test_others_have_turns_between_the_parts_of_a_large_list(accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    end_parts_early(monkeypatch)

    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        turns, bodies = await turns_during_list(client, accept)
        assert turns >= 3
        if "protobuf" not in accept:
            document = orjson.loads(b"".join(bodies))
            assert len(document.get("items") or document["rows"]) >= OBJECTS

    with_asgi_client(scenario)


def test_two_large_lists_at_once_take_turns_after_each_part() -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client, size=3000)
        order: list[str] = []

        async def read(name: str) -> None:
            connection = SlowClient(b"")
            scope = {**scope_of(CONFIG_MAPS), "certificate_user": ADMIN, "connection": connection}

            async def send(message: dict[str, Any]) -> None:
                if len(message.get("body", b"")) >= PART_BYTES:
                    order.append(name)

            await client.server.app(scope, connection.receive, send)

        await asyncio.gather(read("a"), read("b"))
        both = order[order.index("b") :][:8]  # the first one was alone until the second began
        assert both.count("a") == both.count("b") == 4

    with_asgi_client(scenario)


def test_large_list_equals_its_pages() -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        whole = (await client("GET", CONFIG_MAPS)).json()
        page, items = (await client("GET", f"{CONFIG_MAPS}?limit=10")).json(), []
        while True:
            items += page["items"]
            if not (token := page["metadata"].get("continue")):
                break
            page = (await client("GET", f"{CONFIG_MAPS}?limit=10&continue={token}")).json()
        assert items == whole["items"]
        assert list(whole) == list(page)

    with_asgi_client(scenario)


def test_large_list_is_compressed_for_clients_that_accept_it() -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        connection = SlowClient(b"")
        scope = {**scope_of(CONFIG_MAPS), "certificate_user": ADMIN, "connection": connection}
        scope["headers"] = [(b"accept-encoding", b"gzip")]
        await client.server.app(scope, connection.receive, connection.send)
        assert (b"content-encoding", b"gzip") in connection.sent[0]["headers"]
        body = b"".join(message["body"] for message in connection.sent[1:])
        assert len(orjson.loads(gzip.decompress(body))["items"]) >= OBJECTS

    with_asgi_client(scenario)


async def compressible_list(client: AsgiClient, query: str, accept: str) -> SlowClient:
    """A list for a client that accepts compressed responses."""
    connection = SlowClient(b"")
    scope = {**scope_of(CONFIG_MAPS, query), "certificate_user": ADMIN, "connection": connection}
    scope["headers"] = [(b"accept-encoding", b"gzip"), (b"accept", accept.encode())]
    await client.server.app(scope, connection.receive, connection.send)
    return connection


def test_compressed_list_of_at_most_a_part_is_sent_at_once_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        head, body = (await compressible_list(client, "", "application/json")).sent
        assert dict(head["headers"])[b"content-length"] == str(len(body["body"])).encode()
        assert len(orjson.loads(gzip.decompress(body["body"]))["items"]) >= OBJECTS
        monkeypatch.setattr(response_sending, "_COMPRESSED_BYTES", 1)
        head, *parts = (await compressible_list(client, "", "application/json")).sent
        assert b"content-length" not in dict(head["headers"])
        assert len(parts) > 1
        whole = gzip.decompress(b"".join(one["body"] for one in parts))
        assert len(orjson.loads(whole)["items"]) >= OBJECTS

    with_asgi_client(scenario)


def test_documents_that_are_kept_compressed_are_not_compressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_sending, "_GZIP_MIN_BYTES", 1024)

    async def scenario(client: AsgiClient) -> None:
        document = await client("GET", "/openapi/v2", accept_encoding="gzip")
        assert document.headers["content-encoding"] == "gzip"
        assert orjson.loads(gzip.decompress(document.body))["swagger"] == "2.0"

    with_asgi_client(scenario, runner=asyncio.run)


@pytest.mark.parametrize(
    ("accept", "query"),
    [
        ("application/json", "limit=50"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", ""),
        ("application/vnd.kubernetes.protobuf", "limit=50"),
    ],
)
def test_small_list_has_a_length_and_is_not_compressed(accept: str, query: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        head, *bodies = (await compressible_list(client, query, accept)).sent
        headers = dict(head["headers"])
        body = b"".join(message["body"] for message in bodies)
        assert b"content-encoding" not in headers
        assert int(headers[b"content-length"]) == len(body)

    with_asgi_client(scenario)


def test_list_of_at_most_a_part_is_sent_at_once() -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        turns, bodies = await turns_during_list(client, "application/json", "limit=40")
        assert (turns, len(bodies)) == (0, 1)
        assert len(orjson.loads(bodies[0])["items"]) == 40

    with_asgi_client(scenario)


def test_list_for_a_client_that_has_gone_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    end_parts_early(monkeypatch)

    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        connection = SlowClient(b"")
        scope = {**scope_of(CONFIG_MAPS), "certificate_user": ADMIN, "connection": connection}

        async def send(message: dict[str, Any]) -> None:
            await connection.send(message)
            connection.is_lost = message["type"] == "http.response.body"

        await client.server.app(scope, connection.receive, send)
        assert sum(len(message.get("body", b"")) for message in connection.sent) < OBJECTS * 1000 / 2

    with_asgi_client(scenario)


def test_large_list_for_a_person_is_indented_in_a_worker_process(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[str] = []
    convert = BodyWorker.convert

    async def noted(worker: BodyWorker, body: bytes, task: str, *arguments: str) -> bytes:
        tasks.append(task)
        return await convert(worker, body, task, *arguments)

    monkeypatch.setattr(BodyWorker, "convert", noted)

    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        response = await client("GET", f"{CONFIG_MAPS}?pretty=true")
        assert response.body.startswith(b'{\n  "kind"')
        assert len(response.json()["items"]) >= OBJECTS

    with_asgi_client(scenario)
    assert tasks == ["to-indented-json"]


def test_watch_sends_its_first_events_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    end_parts_early(monkeypatch)

    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        turns, bodies = await turns_during_list(client, "application/json", "watch=1&timeoutSeconds=1")
        assert turns >= 3
        assert max(map(len, bodies)) < 200_000
        assert b"".join(bodies).count(b'"type":"ADDED"') >= OBJECTS

    with_asgi_client(scenario)
