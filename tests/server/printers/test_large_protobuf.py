"""Large objects in protobuf are encoded outside of the event loop, and look the same."""

import threading
from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api import protobuf
from trimtab.server.printers import responses
from trimtab.server.request import large_objects, protobuf_responses

MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def encoding_threads(monkeypatch: pytest.MonkeyPatch, max_bytes: int) -> tuple[Any, set[str]]:
    """What a get returns, and the threads that encoded objects for a get, a list and a watch."""
    threads = set[str]()
    encode = protobuf_responses.encode_object

    def note_thread(raw: Any) -> bytes:
        if "data" in raw:
            threads.add(threading.current_thread().name.rpartition("_")[0])
        return encode(raw)

    monkeypatch.setattr(large_objects, "MAX_BYTES_IN_LOOP", max_bytes)
    for module in (responses, protobuf_responses):
        monkeypatch.setattr(module, "encode_object", note_thread)

    async def scenario(client: AsgiClient) -> Any:
        for number in range(150):
            await client("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "v" * 1000}})
        threads.clear()
        found = [
            (await client("GET", path, accept=PROTOBUF)).body
            for path in (f"{MAPS}/m1", MAPS, f"{MAPS}?watch=1&timeoutSeconds=1")
        ]
        return protobuf.decode(found[0])["data"]

    return with_asgi_client(scenario), set(threads)


def test_large_objects_are_encoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    small, in_loop = encoding_threads(monkeypatch, 8000)
    large, in_thread = encoding_threads(monkeypatch, 1)
    assert in_loop == {""}
    assert in_thread == {"large objects"}
    assert small == large
