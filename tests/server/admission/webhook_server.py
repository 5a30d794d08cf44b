"""A webhook on a real TLS socket whose answers a test writes byte by byte."""

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from server.asgi import AsgiClient
from trimtab.server.apiserver import ApiServer
from trimtab.server.auth.certificates import ensure_authority
from trimtab.store.store import Store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
Respond = Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[None]]
"""Answers one AdmissionReview (its `request`) on a connection."""


class RawWebhook:
    """The webhook and the API server that calls it."""

    def __init__(self, client: AsgiClient, url: str, bundle: bytes) -> None:
        self.client = client
        self.url = url
        self._bundle = bundle

    async def register(self, kind: str = "Validating", **more: object) -> None:
        webhook = {
            "name": "hook.example.com",
            "clientConfig": {"url": self.url, "caBundle": base64.b64encode(self._bundle).decode()},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
        body = {**head, "metadata": {"name": "hook"}, "webhooks": [webhook]}
        path = f"{REGISTRATION}/{kind.lower()}webhookconfigurations"
        assert (await self.client("POST", path, body)).status == 201

    async def create(self, name: str = "x") -> Any:
        return await self.client("POST", CONFIG_MAPS, {"metadata": {"name": name}})

    async def exists(self, name: str = "x") -> bool:
        return (await self.client("GET", f"{CONFIG_MAPS}/{name}")).status == 200


def with_raw_webhook(directory: Path, respond: Respond, scenario: Callable[[RawWebhook], Awaitable[None]]) -> None:
    """Run `scenario(webhook)` while every connection to the webhook gets what `respond` writes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await respond(await _read_review(reader), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the API server hung up: some answers are refused before their end
        finally:
            writer.close()

    async def run() -> None:
        authority = ensure_authority(directory, [])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.certificate_and_key("server"))
        listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = listener.sockets[0].getsockname()[1]
        server = ApiServer(Store())
        await server.start()
        try:
            bundle = authority.certificate.read_bytes()
            await scenario(RawWebhook(AsgiClient(server), f"https://127.0.0.1:{port}/review", bundle))
        finally:
            await server.stop()
            listener.close()

    asyncio.run(run())


async def _read_review(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    request: dict[str, Any] = json.loads(await reader.readexactly(length))["request"]
    return request


def review(response: Any, **more: object) -> bytes:
    """An AdmissionReview with this response."""
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "response": response, **more}).encode()


def http_answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
