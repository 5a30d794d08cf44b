"""Interpreter webhooks are reached by URL or by Service, over TLS, within their time."""

import asyncio
import base64
import json
import ssl
from pathlib import Path

import pytest

from trimtab.api.value import Raw
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookQuestion
from trimtab.members.interpreter_webhooks import InterpreterWebhooks, webhook_url
from trimtab.server.admission.dynamic.webhook_calls import CallFailed
from trimtab.server.auth.certificates import ensure_authority


def no_service(namespace: str, name: str) -> Raw | None:
    return None


SERVICE = {"namespace": "team", "name": "hook", "path": "/interpret"}


def test_address_of_a_webhook() -> None:
    assert webhook_url({"url": "https://example.com/a"}, no_service) == "https://example.com/a"
    assert webhook_url({"service": SERVICE}, no_service) == "https://hook.team.svc:443/interpret"
    ip = {"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": [{"port": 8443}]}}
    both = {"url": "https://unused", "service": {**SERVICE, "port": 8443}}
    assert webhook_url(both, lambda *_: ip) == "https://10.0.0.7:8443/interpret"
    external = {"spec": {"type": "ExternalName", "externalName": "hooks.example.com"}}
    assert webhook_url({"service": SERVICE}, lambda *_: external) == "https://hooks.example.com:443/interpret"
    for spec in ({"clusterIP": "None", "ports": [{"port": 443}]}, {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}):
        with pytest.raises(CallFailed):
            webhook_url({"service": SERVICE}, lambda *_, spec=spec: {"spec": spec})


async def ask(directory: Path, seconds: int, delay: float) -> Raw | InterpreterFailure:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"post /?timeout=%ds http" % seconds)
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        request = json.loads(await reader.readexactly(length))["request"]
        await asyncio.sleep(delay)
        body = json.dumps({"response": {"uid": request["uid"], "successful": True, "healthy": True}}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    authority = ensure_authority(directory, [])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certificate_and_key("server"))
    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    client_config = {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle}
    try:
        return await InterpreterWebhooks(no_service).call(
            WebhookQuestion("examples", client_config, seconds, "InterpretHealth", {"object": {}})
        )
    finally:
        listener.close()


def test_webhook_answers_over_tls(tmp_path: Path) -> None:
    answer = asyncio.run(ask(tmp_path, 30, 0))
    assert isinstance(answer, dict)
    assert answer["healthy"] is True


def test_webhook_that_is_late_or_not_there_is_a_failure(tmp_path: Path) -> None:
    late = asyncio.run(ask(tmp_path, 1, 60))
    assert isinstance(late, InterpreterFailure)
    assert late.reason == "DeadlineExceeded"
    refused = WebhookQuestion("examples", {"url": "https://127.0.0.1:1/"}, 5, "InterpretHealth", {})
    failure = asyncio.run(InterpreterWebhooks(no_service).call(refused))
    assert isinstance(failure, InterpreterFailure)
    assert failure.reason == "WebhookUnavailable"
