"""Large bodies are converted in a process of their own, and the loop goes on meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO

import orjson
import pytest
import yaml

from server.asgi import AsgiClient
from trimtab.api import protobuf
from trimtab.api.limits import MAX_NODES, MAX_PROTOBUF_FIELDS, MAX_WAITING_FOR_WORKER, MAX_YAML_TOKENS_IN_LOOP
from trimtab.api.protobuf_wire import encode_delimited
from trimtab.errors import TooLarge, TooManyRequests
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.registry import patch_requests
from trimtab.server.request import body_worker
from trimtab.server.request.body_worker import BodyWorker, ConversionFailed, _perform
from trimtab.store.store import Store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MANY = MAX_YAML_TOKENS_IN_LOOP + 1


def with_real_server(scenario: Callable[[AsgiClient], Awaitable[None]]) -> None:
    """Run a scenario in real time, in which other processes take their time."""

    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings())
        await server.start()
        try:
            await asyncio.wait_for(scenario(AsgiClient(server)), 120)
        finally:
            await server.stop()

    asyncio.run(run())


def large_yaml(name: str) -> bytes:
    return yaml.safe_dump({"metadata": {"name": name}, "data": {f"k{i}": "v" for i in range(MANY)}}).encode()


def test_large_yaml_body_is_stored_and_sent_as_yaml() -> None:
    async def scenario(client: AsgiClient) -> None:
        created = await client("POST", CONFIG_MAPS, large_yaml("a"), content_type="application/yaml")
        assert created.status == 201, created.body[:300]
        applied = await client(
            "PATCH",
            f"{CONFIG_MAPS}/b?fieldManager=x",
            b"apiVersion: v1\nkind: ConfigMap\n" + large_yaml("b"),
            content_type="application/apply-patch+yaml",
        )
        assert applied.status == 201, applied.body[:300]
        read = await client("GET", f"{CONFIG_MAPS}/a", accept="application/yaml")
        assert read.headers["content-type"] == "application/yaml"
        assert len(yaml.load(read.body, Loader=yaml.CSafeLoader)["data"]) == MANY

    with_real_server(scenario)


def test_large_protobuf_body_is_stored() -> None:
    async def scenario(client: AsgiClient) -> None:
        raw = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {f"k{i}": "v" for i in range(MANY)},
        }
        body = protobuf.encode(raw)
        created = await client("POST", CONFIG_MAPS, body, content_type="application/vnd.kubernetes.protobuf")
        assert created.status == 201, created.body[:300]
        assert created.json()["data"] == raw["data"]

    with_real_server(scenario)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (
            b"a: [\n" + b"- x\n" * MANY,
            400,
            "must be of type ConfigMap): couldn't get version/kind; json parse error: yaml",
        ),
        (b"[" * 2_000_000, 400, "exceeded max depth"),
        (b"k: v\n" + b"".join(b"k%d: v\n" % i for i in range(2 * MAX_NODES)), 413, "more than 100000 values"),
        (b" " * 3_000_000, 400, "cannot unmarshal null into Go value"),
    ],
)
def test_large_invalid_yaml_is_refused_while_the_loop_goes_on(body: bytes, status: int, message: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.ensure_future(turn())
        refused = await client("POST", CONFIG_MAPS, body, content_type="application/yaml")
        ticker.cancel()
        assert (refused.status, refused.json()["kind"]) == (status, "Status")
        assert message in refused.json()["message"]
        assert turns > 5

    with_real_server(scenario)


@pytest.mark.parametrize("body", [b"- &a 1\n" * MANY, b"a\n" * MANY])
def test_large_applied_document_that_is_no_object_is_parsed_once(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_requests, "load_yaml", pytest.fail)

    async def scenario(client: AsgiClient) -> None:
        path, media = f"{CONFIG_MAPS}/a?fieldManager=m", "application/apply-patch+yaml"
        refused = await client("PATCH", path, body, content_type=media)
        assert (refused.status, refused.json()["message"]) == (
            400,
            "error decoding YAML: the document is not an object",
        )

    with_real_server(scenario)


def test_large_invalid_apply_patch_and_protobuf_are_refused() -> None:
    async def scenario(client: AsgiClient) -> None:
        where = f"{CONFIG_MAPS}/a?fieldManager=x"
        refused = await client("PATCH", where, b"- [\n" * MANY, content_type="application/apply-patch+yaml")
        assert refused.status == 400
        assert refused.json()["message"].startswith("error decoding YAML: yaml: ")
        fields = b"\x78\x00" * (MAX_PROTOBUF_FIELDS + 1)
        head = protobuf.encode({"apiVersion": "v1", "kind": "ConfigMap"})
        body = head + encode_delimited(2, fields)
        refused = await client("POST", CONFIG_MAPS, body, content_type="application/vnd.kubernetes.protobuf")
        assert refused.status == 413
        assert "fields" in refused.json()["message"]
        refused = await client("POST", CONFIG_MAPS, body + b"\x07", content_type="application/vnd.kubernetes.protobuf")
        assert refused.status == 400

    with_real_server(scenario)


def test_requests_beyond_the_queue_are_told_to_try_again(monkeypatch) -> None:
    async def scenario() -> None:
        release = asyncio.Event()

        async def wait(*_: object) -> body_worker._Outcome:
            await release.wait()
            return body_worker._Outcome(0, b"{}")

        monkeypatch.setattr(body_worker.asyncio, "to_thread", wait)
        worker = BodyWorker()
        waiting = [asyncio.ensure_future(worker.convert(b"", "yaml")) for _ in range(MAX_WAITING_FOR_WORKER)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await worker.convert(b"", "yaml")
        release.set()
        assert await asyncio.gather(*waiting) == [b"{}"] * MAX_WAITING_FOR_WORKER
        assert await worker.convert(b"", "yaml") == b"{}"

    asyncio.run(scenario())


def test_process_that_takes_too_long_or_crashes_is_an_error_of_the_request(monkeypatch) -> None:
    monkeypatch.setattr(body_worker, "WORKER_SECONDS", 0.001)
    with pytest.raises(TooLarge, match="too much time or memory"):
        asyncio.run(BodyWorker().convert(b"a: 1", "yaml"))
    monkeypatch.setattr(body_worker, "WORKER_SECONDS", 60.0)
    with pytest.raises(TooLarge):
        asyncio.run(BodyWorker().convert(b"a: 1", "no such task"))
    with pytest.raises(ConversionFailed, match="yaml: "):
        asyncio.run(BodyWorker().convert(b"a: [", "yaml"))


def test_tasks_report_their_outcome() -> None:
    assert _perform("yaml", [], b"a: 1") == (0, b'{"a":1}')
    assert _perform("to-yaml", [], b'{"a":[1]}') == (0, b"a:\n- 1\n")
    assert _perform("yaml", [], b"a: [").code == body_worker._INVALID
    assert _perform("yaml", [], b"a: &a [x]\nb: [" + b"*a," * MAX_NODES + b"]").code == body_worker._TOO_LARGE
    assert _perform("protobuf", ["v1", "ConfigMap"], b"x").code == body_worker._INVALID
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    assert orjson.loads(_perform("protobuf", ["v1", "ConfigMap"], protobuf.encode(raw)).output)["data"] == {"a": "b"}


def test_main_writes_the_output_and_returns_the_code(monkeypatch) -> None:
    monkeypatch.setattr(body_worker.resource, "setrlimit", lambda *_: None)
    output = BytesIO()
    assert body_worker.main(["yaml"], BytesIO(b"a: 1"), output) == 0
    assert output.getvalue() == b'{"a":1}'
